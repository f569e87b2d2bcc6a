// On their way to the optimizer: which gradients are summed over which ranks, and in which type.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

Plan plan_of(Parallel parallel, int stage, const std::string& kernel_set = "cpu.f32") {
  Plan plan;
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel = parallel;
  plan.zero_stage = stage;
  plan.gather = Gather::kLayer;
  plan.batch = {.global_batch = 12, .micro_batch = 1, .sequence = 32};
  return plan;
}

// The rows of positions are looked up for all tokens on every rank: to sum their gradients would
// count them twice.
TEST(Gradients, OfPositionsAreWholeOnEachTensorRank) {
  Plan plan = plan_of({.tp = 2}, 0);
  plan.parallel.sequence_parallel = true;
  const Job job = lower(plan, load_model("tiny-gpt"));
  std::set<Part> summed;
  for (const Node& node : job.classes[0].program.nodes)
    if (node.role.action == Action::kSumShared) summed.insert(node.role.part);
  EXPECT_EQ(summed, (std::set{Part::kLayer, Part::kFinalNorm}));
}

// Hybrid sharding: two groups of two ranks, of which each has all gradients of its own samples.
TEST(Gradients, OfGroupsThatHaveCopiesAreSummedShardByShard) {
  const ModelConfig model = load_model("tiny-gpt");
  for (const int stage : {1, 2, 3}) {
    const Plan plan = plan_of({.dp = 4, .shards = 2}, stage);
    const Job job = lower(plan, model);
    std::int64_t shards = 0, summed = 0;
    for (const Unit& unit : job.units)
      shards += unit.shard_elements * (unit.per_layer ? model.layers : 1);
    const Program& program = job.classes[0].program;
    for (const Node& node : program.nodes) {
      if (node.role.action != Action::kSumCopies) continue;
      EXPECT_EQ(node.collective, CollectiveKind::kAllReduce);
      EXPECT_EQ(job.mesh.size(node.group), 2);
      summed +=
          testing_support::instances(program, node) * program.operands(node)[0].shape.elements();
    }
    const std::int64_t times = stage == 1 ? 1 : plan.micro_steps();
    EXPECT_EQ(summed, times * shards) << stage;
  }
}

// fp32-reduction casts what bf16 kernels write before it is reduced, half-reduction after it.
TEST(Gradients, AreReducedInTheTypeOfTheRecipe) {
  for (const auto& [recipe, type] :
       {std::pair{"fp32-reduction", DType::kF32}, {"half-reduction", DType::kBf16}})
    for (const int stage : {2, 3}) {
      Plan plan = plan_of({.dp = 2}, stage, "cpu.bf16");
      plan.precision = *find_recipe(recipe, plan.kernel_set);
      const Job job = lower(plan, load_model("tiny-gpt"));
      const Program& program = job.classes[0].program;
      int reductions = 0;
      for (const Node& node : program.nodes) {
        if (node.kind != OpKind::kCollective || node.role.phase != Phase::kBackward) continue;
        if (node.role.action != Action::kReduce) continue;
        ++reductions;
        for (const View& view : program.operands(node)) EXPECT_EQ(view.dtype, type) << recipe;
      }
      EXPECT_GT(reductions, 0) << recipe;
    }
}

}  // namespace
}  // namespace zplan
