// Law 3: memory is placed, not estimated. Every plan of the cover runs one operation at a time with
// poison, canaries and page protection (exec/guard.h): no operation touches a byte it does not
// declare, every declared write is complete, nothing is read that another buffer has overwritten.
// And the numbers are those of the threaded run, as they are in two drawn schedules.
#include <gtest/gtest.h>

#include "exec/state_access.h"
#include "planner/program/verify.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::Choice;

class MemoryLaw : public testing::TestWithParam<Choice> {};

TEST_P(MemoryLaw, GuardedRunFindsNothingAndEveryLegalScheduleGivesTheSameBits) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  const Job job = testing_support::placed_job(plan);
  ASSERT_EQ(verify(job), std::vector<std::string>{});
  exec::RunOptions options;
  options.steps = 2;
  const exec::RunResult threaded = testing_support::run_text(job, options);
  options.mode = exec::RunMode::kSerial;
  for (std::uint64_t seed : {0U, 1U, 2U}) {
    options.schedule_seed = seed;
    options.guard = seed == 0;
    const exec::RunResult serial = testing_support::run_text(job, options);
    EXPECT_FALSE(exec::largest_difference(job, threaded.memory, job, serial.memory)) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Pairwise, MemoryLaw,
                         testing::ValuesIn(testing_support::pairwise_choices()),
                         [](const auto& plan) { return testing_support::name_of(plan.param); });

}  // namespace
}  // namespace zplan
