// Token embedding and output head in tiles of the vocabulary: no end of the model is gathered whole
// or has its gradients whole, and both see what they see as a whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "planner/lower/lower.h"

namespace zplan {
namespace {

Plan plan_of(std::int32_t tiles, const std::string& model = "tiny-gpt") {
  Plan plan;
  plan.model = model;
  plan.hardware = "workstation";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 2, .sequence = 32};
  plan.parallel.dp = 2;
  plan.zero_stage = 3;
  plan.prefetch = 0;
  plan.gather = Gather::in_tiles(tiles);
  return plan;
}

Program program_of(const Plan& plan) {
  return lower(plan, load_model(plan.model)).classes[0].program;
}

std::map<std::string, Bytes> sizes(const Program& program) {
  std::map<std::string, Bytes> result;
  for (const Buffer& b : program.buffers) result[b.name] = b.size();
  return result;
}

std::int64_t nodes(const Program& program, const Role& role) {
  return std::count_if(program.nodes.begin(), program.nodes.end(),
                       [&](const Node& node) { return node.role == role; });
}

TEST(TiledEnds, AreGatheredAndReducedTileByTile) {
  for (const char* model : {"tiny-gpt", "tiny-llama"}) {
    const auto whole = sizes(program_of(plan_of(1, model)));
    const auto tiled = sizes(program_of(plan_of(2, model)));
    int found = 0;
    for (const auto& [name, size] : whole) {
      const bool is_table = name == "gathered.embedding" || name == "gathered.head" ||
                            name == "full_grad.embedding" || name == "full_grad.head";
      if (!is_table) continue;
      ++found;
      EXPECT_EQ(tiled.at(name) * 2, size) << model << " " << name;
    }
    EXPECT_GE(found, 3) << model;
    EXPECT_EQ(tiled.at("logits"), whole.at("logits")) << model;
  }
}

// Gathered for the logits, again for the gradients; the tied table is reduced for the head and for
// the look-up.
TEST(TiledEnds, MoveEachTileAsOftenAsItIsUsed) {
  for (const std::int32_t tiles : {2, 4}) {
    const Program p = program_of(plan_of(tiles));
    EXPECT_EQ(nodes(p, {Phase::kForward, Part::kEmbedding, Action::kGather}), tiles);
    EXPECT_EQ(nodes(p, {Phase::kForward, Part::kHead, Action::kGather}), tiles);
    EXPECT_EQ(nodes(p, {Phase::kBackward, Part::kHead, Action::kGather}), tiles);
    EXPECT_EQ(nodes(p, {Phase::kBackward, Part::kHead, Action::kReduce}), tiles);
    EXPECT_EQ(nodes(p, {Phase::kBackward, Part::kEmbedding, Action::kReduce}), tiles);
    EXPECT_EQ(nodes(p, {Phase::kForward, Part::kLoss, Action::kReduce}), tiles);
  }
}

TEST(TiledEnds, AreWholeWhereTheHeadComesInPiecesOfTokens) {
  Plan plan = plan_of(2);
  plan.head_chunks = 2;
  const auto whole = sizes(program_of(plan_of(1)));
  const auto pieces = sizes(program_of(plan));
  EXPECT_EQ(pieces.at("gathered.head"), whole.at("gathered.head"));
}

}  // namespace
}  // namespace zplan
