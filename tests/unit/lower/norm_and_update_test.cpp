// What of each unit the ranks square for the norm of all gradients, and where in it the piece that
// each of them updates begins.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

Plan plan_of(Parallel parallel, int stage) {
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel = parallel;
  plan.zero_stage = stage;
  plan.gather = Gather::kLayer;
  plan.batch = {.global_batch = 8, .micro_batch = 1, .sequence = 32};
  return plan;
}

// By the rule of the kernel: of copies of a shard the first counts, of what tensor parallel ranks
// all have that of the first of them.
std::int64_t counted(const AttributeValues& of, std::int64_t elements) {
  const std::int64_t first = of[0], shared_from = of[1], tensor_rank = of[2], copy = of[3];
  if (copy != 0) return 0;
  if (shared_from < 0 || tensor_rank == 0) return elements;
  return std::clamp<std::int64_t>(shared_from - first, 0, elements);
}

// Over all ranks, which each run the program of their stage.
std::int64_t squared(const Job& job) {
  std::int64_t sum = 0;
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    const MeshPoint at = job.mesh.point(rank);
    const Program& program = job.classes[static_cast<std::size_t>(at[job.mesh.pipeline()])].program;
    for (const Node& node : program.nodes)
      if (node.kind == OpKind::kKernel && node.kernel == KernelId::kSumSquares)
        sum += testing_support::instances(program, node) *
               counted(resolve(program.attributes_of(node), at),
                       program.operands(node)[0].shape.elements());
  }
  return sum;
}

// With the padding behind its last element, which is zero.
std::int64_t elements_of(const Unit& unit, std::int64_t tensor_ranks) {
  return tensor_ranks * unit.shared_from + unit.flat_elements - unit.shared_from;
}

TEST(GradientNorm, CountsEachElementOnce) {
  const ModelConfig model = load_model("tiny-gpt");  // its embedding is its head, too
  const std::pair<Parallel, int> cases[] = {
      {{.dp = 2}, 0},          {{.dp = 4}, 1},          {{.dp = 4, .shards = 2}, 2},
      {{.tp = 2}, 0},          {{.dp = 2, .tp = 2}, 1}, {{.dp = 2, .tp = 4}, 3},
      {{.dp = 2, .pp = 2}, 0}, {{.dp = 2, .pp = 2}, 1}, {{.dp = 2, .tp = 2, .pp = 2}, 1}};
  for (const auto& [parallel, stage] : cases) {
    const Job job = lower(plan_of(parallel, stage), model);
    std::int64_t all = 0;
    for (const Unit& unit : job.units)
      all += elements_of(unit, parallel.tp) * (unit.per_layer ? model.layers : 1);
    EXPECT_EQ(squared(job), all) << "dp " << parallel.dp << " tp " << parallel.tp << " pp "
                                 << parallel.pp << " ZeRO " << stage;
  }
}

// Where weight decay ends is counted from the begin of the unit, so each rank must know how far
// into it its shard begins.
TEST(Update, BeginsWithTheShardOfTheRank) {
  for (const int stage : {0, 1, 2, 3}) {
    const Job job = lower(plan_of({.dp = 4}, stage), load_model("tiny-gpt"));
    const Program& program = job.classes[0].program;
    std::size_t updated = 0;
    for (const Node& node : program.nodes) {
      if (node.kind != OpKind::kKernel || node.kernel != KernelId::kAdamW) continue;
      ++updated;
      for (std::int32_t rank = 0; rank < job.world(); ++rank) {
        const AttributeValues at = resolve(program.attributes_of(node), job.mesh.point(rank));
        const Unit& unit = job.units[static_cast<std::size_t>(at[2])];
        EXPECT_EQ(at[0], stage == 0 ? 0 : rank * unit.shard_elements) << unit.name << stage;
        EXPECT_EQ(at[1], unit.decay_elements) << unit.name << stage;
      }
    }
    EXPECT_EQ(updated, job.units.size()) << stage;
  }
}

}  // namespace
}  // namespace zplan
