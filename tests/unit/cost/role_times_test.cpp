// Times by role add up to those of the lanes, however the Job is folded.
#include "planner/cost/role_times.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "planner/cost/step_totals.h"
#include "planner/place/place.h"
#include "planner/program/instances/unroll.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::recompute_all;
using testing_support::round_model;

Job small_job() {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = 2;
  plan.parallel.pp = 2;
  plan.zero_stage = 1;
  plan.recompute = recompute_all(Recompute::kFull);
  plan.batch = {.global_batch = 8, .micro_batch = 1, .sequence = 128};
  Job job = lower(plan, round_model());
  place(job, {.slack = plan.slack});
  return job;
}

TEST(RoleTimes, AddUpToTheTimesOfTheLanes) {
  const Job job = small_job();
  const Cluster cluster = load_cluster("dgx-a100");
  const CostModel model(job, cluster);
  std::array<double, kLaneCount> by_role{}, by_lane{}, operations{};
  for (const auto& [key, time] : role_times(model)) {
    by_role[static_cast<std::size_t>(key.lane)] += time.time.value;
    operations[static_cast<std::size_t>(key.lane)] += static_cast<double>(time.operations);
  }
  for (const ClassTotals& totals : step_totals(model).classes)
    for (std::size_t lane = 0; lane < kLaneCount; ++lane)
      by_lane[lane] += to_seconds(totals.lane[lane]).value;
  EXPECT_GT(by_lane[static_cast<std::size_t>(Lane::kCompute)], 0);
  // Totals are bounds, and leave out the picosecond to which a transfer was rounded.
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    const double rounded = (operations[lane] + 1) / kPicosecondsPerSecond;
    EXPECT_NEAR(by_role[lane], by_lane[lane], rounded) << lane;
  }
}

TEST(RoleTimes, OfAFoldedJobAreThoseOfItsUnrolledTwin) {
  const Job job = small_job(), twin = unroll(job);
  const Cluster cluster = load_cluster("dgx-a100");
  const RoleTimes folded = role_times(CostModel(job, cluster));
  const RoleTimes unrolled = role_times(CostModel(twin, cluster));
  ASSERT_EQ(folded.size(), unrolled.size());
  bool recomputes = false;
  for (const auto& [key, time] : folded) {
    const RoleTime& other = unrolled.at(key);
    EXPECT_EQ(time.operations, other.operations) << name(key.role);
    EXPECT_NEAR(time.time.value, other.time.value, 1e-9 * time.time.value) << name(key.role);
    recomputes = recomputes || key.role.phase == Phase::kRecompute;
  }
  EXPECT_TRUE(recomputes);
}

}  // namespace
}  // namespace zplan
