// A validation does what its loss reads, whichever pass of the step brings it.
#include "planner/program/instances/validation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model_config.h"
#include "planner/lower/lower.h"

namespace zplan {
namespace {

Program of_partitioned_parameters(std::int32_t head_chunks) {
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = 2;
  plan.zero_stage = 3;
  plan.head_chunks = head_chunks;
  plan.batch = {.global_batch = 8, .micro_batch = 4, .sequence = 32};
  return lower(plan, load_model("tiny-gpt")).classes[0].program;
}

// Returns whether one of the nodes accesses a buffer as asked.
template <typename IsWanted>
bool any_access(const Program& program, const std::vector<bool>& nodes, BufferId buffer,
                IsWanted is_wanted) {
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto views = program.operands(program.nodes[n]);
    const bool has = std::any_of(views.begin(), views.end(), [&](const View& v) {
      return v.buffer == buffer && is_wanted(v.access);
    });
    if (nodes[n] && program.nodes[n].kind != OpKind::kMark && has) return true;
  }
  return false;
}

TEST(LossNodes, WriteAllThatTheyReadOfTheStep) {
  for (const std::int32_t head_chunks : {1, 4}) {
    const Program program = of_partitioned_parameters(head_chunks);
    const std::vector<bool> nodes = loss_nodes(program);
    int read = 0;
    for (BufferId buffer = 0; buffer < program.buffers.size(); ++buffer) {
      if (program.buffers[buffer].persistent || !any_access(program, nodes, buffer, reads))
        continue;
      ++read;
      EXPECT_TRUE(any_access(program, nodes, buffer, writes))
          << program.buffers[buffer].name << ", head in " << head_chunks;
    }
    EXPECT_GT(read, 0);
  }
}

TEST(LossNodes, HaveTheBackwardPassBringParametersOfALossInPieces) {
  for (const std::int32_t head_chunks : {1, 4}) {
    const Program program = of_partitioned_parameters(head_chunks);
    const std::vector<bool> nodes = loss_nodes(program);
    int brought = 0;
    for (std::size_t n = 0; n < nodes.size(); ++n)
      brought += nodes[n] && program.nodes[n].role.phase == Phase::kBackward ? 1 : 0;
    EXPECT_EQ(brought > 0, head_chunks > 1);
  }
}

}  // namespace
}  // namespace zplan
