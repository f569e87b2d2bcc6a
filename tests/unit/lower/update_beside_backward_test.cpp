// Layers that are updated beside the backward of those before them: the operations of an update
// after backward, each as early as its gradients are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "planner/place/lifetime.h"
#include "planner/program/verify/verify.h"
#include "tests/support/timeline.h"

namespace zplan {
namespace {

using testing_support::placed_job;
using testing_support::spans_of;

constexpr std::int32_t kLayers = 4;  // of tiny-gpt

Plan plan_of(Tier optimizer, int stage, int micro_steps) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.precision = default_recipe(plan.kernel_set);
  plan.zero_stage = stage;
  plan.gather = Gather::kLayer;
  plan.placement.optimizer = optimizer;
  plan.clip = false;
  plan.batch = {.global_batch = 4, .micro_batch = 4 / micro_steps, .sequence = 32};
  return plan;
}

Plan beside(Plan plan) {
  plan.overlap.optimizer = true;
  return plan;
}

bool is_update(const Span& span) {
  const Role role = role_of(span.op);
  return role.phase == Phase::kUpdate && role.part == Part::kLayer && span.lane == Lane::kCpu;
}

bool is_backward(const Span& span) {
  return role_of(span.op).phase == Phase::kBackward && span.lane == Lane::kCompute;
}

// Updates of layers in a step, and those of them that begin before the step's last backward ends.
struct Updates {
  int all = 0, early = 0;
};
Updates updates_of(const Plan& plan) {
  const std::vector<Span> spans = spans_of(plan);
  std::map<std::int64_t, SimTime> end;
  for (const Span& span : spans)
    if (is_backward(span)) end[span.step] = std::max(end[span.step], span.end);
  Updates sum;
  for (const Span& span : spans) {
    if (!is_update(span)) continue;
    ++sum.all;
    sum.early += span.start < end[span.step] ? 1 : 0;
  }
  return sum;
}

struct Case {
  Tier optimizer;
  int stage, micro_steps;
  int sequences = 4;
};

// Where states are on NVMe it takes a batch whose steps are longer than the drive needs.
TEST(UpdateBesideBackward, BeginsBeforeTheEndOfBackwardWithTheSameOperations) {
  for (const Case& c :
       {Case{Tier::kCpu, 0, 1}, Case{Tier::kCpu, 2, 2}, Case{Tier::kNvme, 3, 1, 64}}) {
    Plan plan = plan_of(c.optimizer, c.stage, c.micro_steps);
    plan.batch.global_batch = c.sequences;
    plan.batch.micro_batch = c.sequences / c.micro_steps;
    const Updates after = updates_of(plan), early = updates_of(beside(plan));
    EXPECT_EQ(after.early, 0);
    EXPECT_EQ(early.all, after.all);
    EXPECT_GE(early.early, early.all * (kLayers - 2) / kLayers);
  }
}

// A node of the update of a layer stands behind the backward of the next layer.
TEST(UpdateBesideBackward, StandsOneLayerBehindInTheLastMicroBatch) {
  const Job job = placed_job(beside(plan_of(Tier::kCpu, 2, 2)));
  const Program& program = job.classes.front().program;
  std::int64_t in_loops = 0;
  for (const Node& node : program.nodes) {
    if (node.role.phase != Phase::kUpdate || node.role.action != Action::kAdam) continue;
    const Block& block = program.blocks[node.block];
    if (block.var != Var::kLayer) continue;
    in_loops += block.count;
    EXPECT_EQ(node.member, block.count > 1 ? 1 : 0);
    EXPECT_EQ(program.blocks[block.parent].count, 1);  // of micro-batches
  }
  EXPECT_EQ(in_loops, kLayers);
}

// The first layers of backward stand apart; what they replay is not held while the others run.
TEST(UpdateBesideBackward, TakesNoMoreOfTheGpuThanAnUpdateAfterBackward) {
  for (const Recompute mode : {Recompute::kFull, Recompute::kNone}) {
    Plan plan = plan_of(Tier::kNvme, 3, 1);
    plan.placement.params = Tier::kNvme;
    plan.placement.grads = Tier::kCpu;
    plan.batch = {.global_batch = 64, .micro_batch = 64, .sequence = 32};
    plan.recompute = {{mode}};
    const auto peak = [](const Plan& p) {
      const Job job = placed_job(p);
      const auto gpu = static_cast<std::size_t>(Tier::kGpu);
      return live_peaks(job.classes.front().program, lifetimes(job).front())[gpu].bytes;
    };
    EXPECT_LE(peak(beside(plan)), peak(plan)) << name(mode);
  }
}

TEST(UpdateBesideBackward, IsVerifiedWithEverySchedule) {
  for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kInterleaved,
                                  Schedule::kZeroBubbleV, Schedule::kZeroBubbleH1}) {
    Plan plan = beside(plan_of(Tier::kCpu, 1, 4));
    plan.parallel.pp = 2;
    plan.parallel.dp = 2;
    plan.batch.global_batch = 8;
    plan.schedule = schedule;
    ASSERT_EQ(illegal(plan, kLayers), std::nullopt);
    EXPECT_TRUE(verify(placed_job(plan)).empty()) << static_cast<int>(schedule);
  }
}

}  // namespace
}  // namespace zplan
