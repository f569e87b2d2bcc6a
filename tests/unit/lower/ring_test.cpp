// Rings of context parallel ranks: where they are in the mesh, which tokens a rank has, and what
// goes around beside attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/lower/context_axis.h"
#include "planner/lower/lower.h"
#include "planner/lower/ranks.h"

namespace zplan {
namespace {

using ::testing::ElementsAre;

// Micro-steps are alike, and gradients are those of whole layers.
Plan plan_of(std::int32_t cp, std::int32_t ring, std::int64_t micro_batch = 1) {
  Plan plan;
  plan.zero_stage = 2;
  plan.gather = Gather::kLayer;
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.cp = cp;
  plan.parallel.ring = ring;
  plan.batch = {.global_batch = 8, .micro_batch = micro_batch, .sequence = 32};
  return plan;
}

std::vector<const Node*> nodes_of(const Job& job, Role role) {
  std::vector<const Node*> found;
  for (const Node& node : job.classes[0].program.nodes)
    if (node.role == role) found.push_back(&node);
  return found;
}

// The same attribute of all these nodes on one rank.
std::vector<std::int64_t> attribute(const Job& job, const std::vector<const Node*>& nodes,
                                    std::size_t index, std::int32_t rank) {
  std::vector<std::int64_t> values;
  for (const Node* node : nodes)
    values.push_back(
        resolve(job.classes[0].program.attributes_of(*node), job.mesh.point(rank))[index]);
  return values;
}

std::vector<std::string> of_a_layer(const Plan& plan, Phase phase) {
  const Job job = lower(plan, load_model("tiny-llama"));
  std::vector<std::string> names;
  for (const Node& node : job.classes[0].program.nodes) {
    const Part part = node.role.part;
    if (node.role.phase == phase && Part::kRope <= part && part <= Part::kKeyGradients)
      names.emplace_back(std::string(name(part)) + "." + std::string(name(node.role.action)));
  }
  return names;
}

TEST(RingMesh, RingsReachOverTheRanksThatExchangeHeads) {
  Plan plan = plan_of(8, 4);
  plan.parallel.tp = 3;
  plan.parallel.dp = 5;
  EXPECT_EQ(sizes_text(mesh_of(plan)), "tp 3 x cp.0 2 x cp.1 4 x dp 5 x pp 1");
  const Mesh mesh = mesh_of(plan);
  EXPECT_EQ(mesh.axes[1].stride, 3);
  EXPECT_EQ(mesh.axes[2].stride, 6);
  EXPECT_EQ(mesh.size(shard_axes(mesh)), 8 * 5);
  EXPECT_EQ(mesh.size(kContextAxis), 8);
  plan.parallel.ring = 8;
  EXPECT_EQ(sizes_text(mesh_of(plan)), "tp 3 x cp.1 8 x dp 5 x pp 1");
}

// Of 32 tokens on a ring of 4 rank r has pieces r and 7 - r of 4 tokens each.
TEST(Ring, EachRankHasAPieceOfBothHalvesOfASequence) {
  const Job job = lower(plan_of(4, 4, 2), load_model("tiny"));
  const auto loads = nodes_of(job, {Phase::kForward, Part::kBatch, Action::kCompute});
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_EQ(job.classes[0].program.operands(*loads[0])[0].shape, (Shape{2, 5}));
  for (std::int32_t rank = 0; rank < 4; ++rank)
    EXPECT_THAT(attribute(job, loads, 3, rank), ElementsAre(rank * 4, (7 - rank) * 4)) << rank;
}

// Of two that exchange heads each has half of the pieces of their place in the ring of two.
TEST(Ring, RanksThatExchangeHeadsShareThePieces) {
  const Job job = lower(plan_of(4, 2), load_model("tiny-llama"));
  const auto loads = nodes_of(job, {Phase::kForward, Part::kBatch, Action::kCompute});
  const auto turns = nodes_of(job, {Phase::kForward, Part::kRope, Action::kCompute});
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const std::int64_t place = rank / 2, within = rank % 2 * 4;
    EXPECT_THAT(attribute(job, loads, 3, rank),
                ElementsAre(place * 8 + within, (3 - place) * 8 + within));
    EXPECT_THAT(attribute(job, turns, 3, rank), ElementsAre(place * 8, (3 - place) * 8));
  }
}

TEST(Ring, PositionsAreThoseOfBothPieces) {
  const Job job = lower(plan_of(4, 4), load_model("tiny"));
  const auto nodes = nodes_of(job, {Phase::kForward, Part::kEmbedding, Action::kCompute});
  const std::int64_t row = 64 * size_of(DType::kF32).value;
  for (std::int32_t rank = 0; rank < 4; ++rank)
    for (std::int64_t i = 0; i < 2; ++i) {
      const View& rows = job.classes[0].program.operands(*nodes[static_cast<std::size_t>(i)])[3];
      EXPECT_EQ(rows.begin(job.mesh.point(rank)).value, (i == 0 ? rank : 7 - rank) * 4 * row);
      EXPECT_EQ(rows.shape, (Shape{4, 64}));
    }
}

TEST(Ring, TheNextBlockComesBesideAttentionToTheOneBefore) {
  EXPECT_THAT(of_a_layer(plan_of(2, 2), Phase::kForward),
              ElementsAre("rope.compute", "rope.compute", "keys.pack", "keys.exchange",
                          "attention.compute", "attention.compute"));
  EXPECT_THAT(of_a_layer(plan_of(4, 4), Phase::kBackward),
              ElementsAre("keys.pack", "keys.exchange", "attention.input_gradient",  //
                          "keys.exchange", "attention.input_gradient", "key_gradients.exchange",
                          "keys.exchange", "attention.input_gradient", "key_gradients.accumulate",
                          "key_gradients.exchange", "attention.input_gradient",
                          "key_gradients.accumulate", "key_gradients.exchange",
                          "key_gradients.unpack", "rope.input_gradient", "rope.input_gradient"));
}

// In step i the block is of rank r - i: before this rank unless that leads past the first one.
TEST(Ring, AStepKnowsWhetherItsBlockIsEarlier) {
  const Job job = lower(plan_of(4, 4), load_model("tiny-llama"));
  auto steps = nodes_of(job, {Phase::kForward, Part::kAttention, Action::kCompute});
  steps.erase(steps.begin());
  EXPECT_THAT(attribute(job, steps, 0, 0), ElementsAre(-1, -2, -3));
  EXPECT_THAT(attribute(job, steps, 0, 2), ElementsAre(1, 0, -1));
}

// The stretches of several sequences are put together for attention, and apart again.
TEST(Ring, SeveralSequencesArePutInOrder) {
  EXPECT_THAT(of_a_layer(plan_of(2, 2, 2), Phase::kForward),
              ElementsAre("rope.compute", "rope.compute", "keys.pack", "keys.exchange",
                          "attention.compute", "attention.compute", "attention.cut"));
}

// 16-bit results are added up in fp32.
TEST(Ring, SumsOfSixteenBitsAreWide) {
  Plan plan = plan_of(2, 2);
  plan.kernel_set = "cuda.sm90.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  EXPECT_THAT(
      of_a_layer(plan, Phase::kForward),
      ElementsAre("rope.compute", "rope.compute", "keys.pack", "keys.exchange", "attention.compute",
                  "attention.cast", "attention.compute", "attention.cast"));
}

}  // namespace
}  // namespace zplan
