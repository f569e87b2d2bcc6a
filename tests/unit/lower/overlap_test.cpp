// Communication beside compute and apart from it: the same operations in another order.
#include <gtest/gtest.h>

#include <map>

#include "planner/program/verify/verify.h"
#include "tests/support/timeline.h"

namespace zplan {
namespace {

using testing_support::placed_job;
using testing_support::timeline_of;

Plan plan_of(int stage, int micro_steps, Gather gather = Gather::kOperator) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = 2;
  plan.zero_stage = stage;
  plan.gather = gather;
  plan.batch = {.global_batch = 8, .micro_batch = 4 / micro_steps, .sequence = 32};
  return plan;
}

bool is_reduction(const Span& span) {
  const Action action = role_of(span.op).action;
  return span.lane == Lane::kCommReduce && role_of(span.op).phase == Phase::kBackward &&
         (action == Action::kReduce || action == Action::kSumCopies);
}
bool is_gather(const Span& span) { return span.lane == Lane::kCommGather; }

// Time in which kernels run beside such communication, over all ranks.
double beside_compute(const Plan& plan, bool (*is_meant)(const Span&)) {
  double sum = 0;
  for (const RankTimeline& rank : timeline_of(plan).ranks)
    for (const Span& a : rank.spans)
      for (const Span& b : rank.spans) {
        const bool pair = is_meant(a) && b.lane == Lane::kCompute;
        if (!pair) continue;
        const auto begin = std::max(a.start, b.start), end = std::min(a.end, b.end);
        if (begin < end) sum += static_cast<double>((end - begin).value);
      }
  return sum;
}

std::map<Role, std::int64_t> collectives(const Plan& plan) {
  std::map<Role, std::int64_t> counts;
  for (const RankTimeline& rank : timeline_of(plan).ranks)
    for (const Span& span : rank.spans)
      if (kind_of(role_of(span.op).action, span.lane) == OpKind::kCollective)
        ++counts[role_of(span.op)];
  return counts;
}

class Overlap : public testing::TestWithParam<int> {};

TEST_P(Overlap, WithoutThatOfGradientsNoReductionRunsBesideCompute) {
  for (const int micro_steps : {1, 2})
    for (const Gather unit : {Gather::kLayer, Gather::kOperator}) {
      Plan plan = plan_of(GetParam(), micro_steps, unit);
      EXPECT_GT(beside_compute(plan, is_reduction), 0);
      const auto expected = collectives(plan);
      plan.overlap.gradients = false;
      EXPECT_EQ(beside_compute(plan, is_reduction), 0);
      EXPECT_EQ(collectives(plan), expected);
    }
}

TEST_P(Overlap, WithoutThatOfParametersNoGatherRunsBesideCompute) {
  if (GetParam() == 0) return;
  for (const int prefetch : {0, 2}) {
    Plan plan = plan_of(GetParam(), 2);
    plan.prefetch = prefetch;
    EXPECT_GT(beside_compute(plan, is_gather), 0);
    const auto expected = collectives(plan);
    plan.overlap.parameters = false;
    EXPECT_EQ(beside_compute(plan, is_gather), 0);
    EXPECT_EQ(collectives(plan), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, Overlap, testing::Values(0, 1, 2, 3));

// A stage with both ends of the model reduces a tied embedding in two passes of a micro-batch.
TEST(ReductionsInTwoPasses, HaveMarksOfTheirOwn) {
  for (const int stage : {0, 1, 2, 3}) {
    Plan plan = plan_of(stage, 2);
    plan.parallel.pp = 2;
    plan.schedule = Schedule::kZeroBubbleV;
    plan.overlap.gradients = false;
    EXPECT_TRUE(verify(placed_job(plan)).empty()) << stage;
  }
}

}  // namespace
}  // namespace zplan
