// Inputs of layers that leave the GPU until backward comes to their layer.
#include <gtest/gtest.h>

#include <vector>

#include "planner/lower/lower.h"

namespace zplan {
namespace {

Plan plan_of(std::int32_t tp, Tier tier) {
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.tp = tp;
  plan.placement.activations = tier;
  plan.recompute = {{Recompute::kFull}};
  plan.batch = {.global_batch = 2, .micro_batch = 1, .sequence = 32};
  return plan;
}

TEST(Checkpoints, AreCutIntoThePartsOfTheTensorRanks) {
  for (const Tier tier : {Tier::kGpu, Tier::kCpu}) {
    Plan plan = plan_of(4, tier);
    plan.partition_activations = true;
    const Job job = lower(plan, load_model("tiny-gpt"));
    const Program& program = job.classes[0].program;
    int saved = 0;
    for (const Node& node : program.nodes) {
      if (node.kind != OpKind::kCopy || node.role.phase != Phase::kForward) continue;
      if (node.role.part != Part::kBoundary) continue;
      ++saved;
      const View& part = program.operands(node)[0];
      EXPECT_EQ(part.shape[0], 32 / 4);
      for (std::int32_t rank = 0; rank < 4; ++rank)
        EXPECT_EQ(along(part.strides, job.mesh.point(rank)), rank * part.bytes().value);
    }
    EXPECT_EQ(saved, 1);
  }
}

// The slots that the loops of backward load checkpoints into, layer by layer.
std::vector<std::int64_t> loaded_slots(const Program& program) {
  std::vector<std::int64_t> slots;
  for (const Node& node : program.nodes) {
    if (node.role.phase != Phase::kRecompute || node.role.action != Action::kUpload) continue;
    const View& target = program.operands(node)[1];
    const Block& loop = program.blocks[node.block];
    for (std::int32_t i = 0; i < loop.count; ++i)
      slots.push_back(target.slot.at({.layer = loop.first + i * loop.step},
                                     program.buffers[target.buffer].slots));
  }
  return slots;
}

TEST(Checkpoints, ComeBackWhileTheOneBeforeIsUsed) {
  const Job job = lower(plan_of(1, Tier::kCpu), load_model("tiny-gpt"));
  const std::vector<std::int64_t> slots = loaded_slots(job.classes[0].program);
  ASSERT_EQ(slots.size(), 4U);
  for (std::size_t i = 1; i < slots.size(); ++i) EXPECT_NE(slots[i], slots[i - 1]);
}

}  // namespace
}  // namespace zplan
