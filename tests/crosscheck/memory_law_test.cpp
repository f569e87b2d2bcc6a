// Law 3: memory is placed, not estimated. Every plan of the cover runs one operation at a time with
// poison, canaries and page protection (exec/guard.h): no operation touches a byte it does not
// declare, every declared write is complete, nothing is read that another buffer has overwritten.
// And the numbers are those of the threaded run.
#include <gtest/gtest.h>

#include "exec/state_access.h"
#include "planner/program/verify.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::Choice;

class MemoryLaw : public testing::TestWithParam<Choice> {};

TEST_P(MemoryLaw, GuardedRunFindsNothingAndGivesTheSameBits) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  const Job job = testing_support::placed_job(plan);
  ASSERT_EQ(verify(job), std::vector<std::string>{});
  exec::RunOptions options;
  options.steps = 2;
  const exec::RunResult threaded = testing_support::run_text(job, options);
  options.mode = exec::RunMode::kSerial;
  options.guard = true;
  const exec::RunResult guarded = testing_support::run_text(job, options);
  EXPECT_EQ(exec::largest_difference(job, threaded.memory, job, guarded.memory).has_value(), false);
}

TEST_P(MemoryLaw, EveryLegalScheduleGivesTheSameBits) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  const Job job = testing_support::placed_job(plan);
  exec::RunOptions options;
  options.steps = 2;
  options.mode = exec::RunMode::kSerial;
  const exec::RunResult first = testing_support::run_text(job, options);
  for (std::uint64_t seed : {1U, 2U}) {
    options.schedule_seed = seed;
    const exec::RunResult other = testing_support::run_text(job, options);
    EXPECT_FALSE(exec::largest_difference(job, first.memory, job, other.memory)) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Pairwise, MemoryLaw,
                         testing::ValuesIn(testing_support::pairwise_choices()),
                         [](const auto& plan) { return testing_support::name_of(plan.param); });

}  // namespace
}  // namespace zplan
