// The output head worked off in pieces of the tokens: logits of one piece, the same products.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/lower/lower.h"

namespace zplan {
namespace {

Plan plan_of(std::int32_t pieces, std::int64_t micro_batch = 2) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = micro_batch, .sequence = 32};
  plan.head_chunks = pieces;
  return plan;
}

Program program_of(const Plan& plan) {
  return lower(plan, load_model(plan.model)).classes[0].program;
}

Bytes logits(const Program& program) {
  const auto at = std::find_if(program.buffers.begin(), program.buffers.end(),
                               [](const Buffer& b) { return b.name == "logits"; });
  return at == program.buffers.end() ? Bytes{0} : at->size();
}

TEST(HeadChunks, LeaveTheLogitsOfOnePiece) {
  const Bytes whole = logits(program_of(plan_of(1)));
  EXPECT_GT(whole.value, 0);
  for (const std::int32_t pieces : {2, 4, 16})
    EXPECT_EQ(logits(program_of(plan_of(pieces))) * pieces, whole) << pieces;
}

TEST(HeadChunks, RunForwardAndBackwardPieceByPiece) {
  const Program program = program_of(plan_of(4));
  std::vector<Action> head;
  for (const Node& node : program.nodes)
    if (node.role.part == Part::kHead && node.lane == Lane::kCompute &&
        node.role.phase != Phase::kUpdate)
      head.push_back(node.role.action);
  std::vector<Action> expected;
  for (int i = 0; i < 4; ++i)
    for (const Action a : {Action::kCompute, Action::kWeightGradient, Action::kInputGradient})
      expected.push_back(a);
  EXPECT_EQ(head, expected);
}

TEST(HeadChunks, AreSequencesOrPartsOfThem) {
  EXPECT_FALSE(illegal(plan_of(4, 4), 4));
  EXPECT_FALSE(illegal(plan_of(8, 2), 4));
  EXPECT_TRUE(illegal(plan_of(3, 2), 4)) << "neither whole sequences nor parts of each";
  EXPECT_TRUE(illegal(plan_of(17, 1), 4));
}

}  // namespace
}  // namespace zplan
