// Optimizer states on the CPU of an update that runs on the GPU.
#include <gtest/gtest.h>

#include "planner/lower/lower.h"
#include "planner/lower/optimizer_states.h"

namespace zplan {
namespace {

Plan plan_of(OffloadedStates offload) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.kernel_set = "cpu.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 4, .sequence = 32};
  plan.offload = offload;
  return plan;
}

Program program_of(const Plan& plan) {
  return lower(plan, load_model(plan.model)).classes[0].program;
}

Bytes optimizer_bytes(const Program& program, Tier tier) {
  Bytes sum{0};
  for (const Buffer& b : program.buffers)
    if (b.category == Category::kOptimizer && b.tier == tier) sum += b.unpadded;
  return sum;
}

TEST(OffloadedStates, EachLiesOnTheCpuByItself) {
  const Program none = program_of(plan_of({}));
  const Bytes all = optimizer_bytes(none, Tier::kGpu);
  EXPECT_EQ(optimizer_bytes(none, Tier::kCpu).value, 0);
  for (const OffloadedStates one :
       {OffloadedStates{.master = true}, OffloadedStates{.moment1 = true},
        OffloadedStates{.moment2 = true}}) {
    const Program program = program_of(plan_of(one));
    EXPECT_EQ(optimizer_bytes(program, Tier::kCpu) * 3, all);
    EXPECT_EQ(optimizer_bytes(program, Tier::kGpu) * 3, all * 2);
  }
}

TEST(OffloadedStates, GoToTheGpuAndBackForTheUpdate) {
  const Program program = program_of(plan_of({.moment1 = true, .moment2 = true}));
  int updates = 0, up = 0, down = 0;
  for (const Node& node : program.nodes) {
    if (node.role.phase != Phase::kUpdate) continue;
    if (node.kernel == KernelId::kAdamW && node.kind == OpKind::kKernel) {
      ++updates;
      EXPECT_EQ(node.lane, Lane::kCompute);
    }
    if (node.lane == Lane::kH2d) ++up;
    if (node.lane == Lane::kD2h && node.role.action != Action::kDownload) ++down;
  }
  EXPECT_GT(updates, 0);
  EXPECT_EQ(up, 2 * updates);
  EXPECT_EQ(down, 2 * updates);
}

TEST(OffloadedStates, LeaveAnOptimizerOnTheGpuOnly) {
  Plan plan = plan_of({.moment1 = true});
  EXPECT_FALSE(illegal(plan, 4));
  plan.placement.optimizer = Tier::kCpu;
  EXPECT_TRUE(illegal(plan, 4));
}

TEST(OffloadedStates, AreDeclaredWhereTheyLie) {
  using enum OptimizerBuffers::State;
  const OptimizerBuffers states(plan_of({.master = true, .moment2 = true}));
  EXPECT_EQ(states.tiers[kMaster], Tier::kCpu);
  EXPECT_EQ(states.tiers[kMoment1], Tier::kGpu);
  EXPECT_EQ(states.tiers[kMoment2], Tier::kCpu);
  EXPECT_EQ(states.tiers[kMainGradient], std::nullopt);
}

}  // namespace
}  // namespace zplan
