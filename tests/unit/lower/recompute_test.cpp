// What layers keep for their backward when some of their operators are recomputed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/core/error.h"
#include "planner/lower/lower.h"

namespace zplan {
namespace {

using enum LayerOperator;

Plan plan_of(OperatorSet operators, const char* kernel_set = "cpu.f32") {
  Plan plan;
  plan.model = "tiny-llama";
  plan.hardware = "workstation";
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 2, .sequence = 32};
  plan.recompute = {{Recompute::kOperators, 0, operators}};
  return plan;
}

Program program_of(const Plan& plan) {
  return lower(plan, load_model(plan.model)).classes[0].program;
}

// Buffers with a slot for every layer.
std::set<std::string> kept(const Program& program) {
  const auto layers = static_cast<std::int32_t>(load_model("tiny-llama").layers);
  std::set<std::string> names;
  for (const Buffer& b : program.buffers)
    if (b.category == Category::kActivations && b.slots == layers) names.insert(b.name);
  return names;
}

std::map<Part, int> replayed(const Program& program) {
  std::map<Part, int> parts;
  for (const Node& node : program.nodes)
    if (node.role.phase == Phase::kRecompute) ++parts[node.role.part];
  return parts;
}

TEST(RecomputeOperators, QkvAndProjectionAloneAreKept) {
  const Program program = program_of(plan_of({kNorm, kAttention, kFc1, kActivation}));
  EXPECT_EQ(kept(program), (std::set<std::string>{"qkv", "middle"}));
  EXPECT_EQ(replayed(program), (std::map<Part, int>{{Part::kAttentionNorm, 1},
                                                    {Part::kAttention, 1},
                                                    {Part::kMlpNorm, 1},
                                                    {Part::kFc1, 1},
                                                    {Part::kGelu, 1}}));
}

// What is by head of latent attention comes again from the latents; their norms from what is not
// normalised.
TEST(RecomputeOperators, LatentsAreKept) {
  Plan plan = plan_of({kQkv});
  plan.model = "tiny-mla";
  Program program = program_of(plan);
  EXPECT_EQ(replayed(program),
            (std::map<Part, int>{{Part::kQkv, 1}, {Part::kQueryUp, 1}, {Part::kKeyUp, 1}}));
  EXPECT_TRUE(kept(program).contains("query_latent.normed"));
  EXPECT_TRUE(kept(program).contains("key_rope"));
  EXPECT_FALSE(kept(program).contains("qkv"));
  plan.recompute = {{Recompute::kOperators, 0, {kNorm}}};
  program = program_of(plan);
  EXPECT_EQ(replayed(program), (std::map<Part, int>{{Part::kAttentionNorm, 1},
                                                    {Part::kQueryNorm, 1},
                                                    {Part::kKeyNorm, 1},
                                                    {Part::kMlpNorm, 1}}));
  EXPECT_TRUE(kept(program).contains("query_latent"));
  EXPECT_FALSE(kept(program).contains("query_latent.normed"));
}

TEST(RecomputeOperators, EachDropsWhatItGivesAndRunsAgain) {
  const auto none = kept(program_of([] {
    Plan plan = plan_of({});
    plan.recompute = {{Recompute::kNone}};
    return plan;
  }()));
  const auto expect_dropped = [&](OperatorSet operators, const std::set<std::string>& dropped,
                                  const std::map<Part, int>& again) {
    const Program program = program_of(plan_of(operators));
    std::set<std::string> rest = none;
    for (const std::string& name : dropped) EXPECT_EQ(rest.erase(name), 1U) << name;
    EXPECT_EQ(kept(program), rest);
    EXPECT_EQ(replayed(program), again);
  };
  expect_dropped({kActivation}, {"gelu"}, {{Part::kGelu, 1}});
  expect_dropped({kFc1, kActivation}, {"fc1", "gelu"}, {{Part::kFc1, 1}, {Part::kGelu, 1}});
  expect_dropped({kNorm}, {"norm1", "rstd1", "norm2", "rstd2"},
                 {{Part::kAttentionNorm, 1}, {Part::kMlpNorm, 1}});
  expect_dropped({kAttention}, {"attention", "lse"}, {{Part::kAttention, 1}});
  expect_dropped({kQkv}, {"qkv"}, {{Part::kQkv, 1}, {Part::kRope, 1}});
  expect_dropped({kProjection}, {"middle"},
                 {{Part::kProjection, 1}, {Part::kAttentionResidual, 1}});
}

TEST(RecomputeOperators, StoredProbabilitiesGoWithAttention) {
  const Program program = program_of(plan_of({kAttention}, "cpu.f32.unfused"));
  EXPECT_FALSE(kept(program).contains("probs"));
  EXPECT_FALSE(kept(program).contains("attention"));
}

TEST(RecomputeOperators, StoredProbabilitiesAloneGoWithSelectiveRecomputation) {
  Plan plan = plan_of({}, "cpu.f32.unfused");
  plan.recompute = {{Recompute::kNone}};
  std::set<std::string> rest = kept(program_of(plan));
  EXPECT_EQ(rest.erase("probs"), 1U);
  plan.recompute = {{Recompute::kSelective}};
  EXPECT_EQ(kept(program_of(plan)), rest);
}

constexpr std::int32_t kManySlots = 1000;  // none is met again

// Of the gathers of a backward and its replay, in their order: those into the unit that stays for a
// whole layer, and all others.
std::vector<std::int64_t> gathered_slots(const Program& program, bool shared) {
  std::vector<std::int64_t> slots;
  for (const Block& block : program.blocks)
    for (std::int32_t i = 0; block.var == Var::kLayer && i < block.count; ++i)
      for (const Block::Item& item : block.items) {
        if (item.is_block) continue;
        const Node& node = program.nodes[item.index];
        const bool up = node.role.phase == Phase::kForward;
        if (node.role.action != Action::kGather || up) continue;
        if ((node.role.part == Part::kShared) != shared) continue;
        slots.push_back(
            program.operands(node)[1].slot.at({.layer = block.first + block.step * i}, kManySlots));
      }
  return slots;
}

void expect_in_turn(const std::vector<std::int64_t>& slots, const std::string& of) {
  ASSERT_GT(slots.size(), 1U) << of;
  for (std::size_t i = 1; i < slots.size(); ++i) EXPECT_EQ(slots[i], slots[i - 1] + 1) << of;
}

Plan plan_of_two_shards(const RecomputeRun& run, const Gather& gather, std::int32_t together) {
  Plan plan = plan_of({});
  plan.checkpoint_layers = together;
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  plan.recompute = {run};
  plan.gather = gather;
  return plan;
}

TEST(Recompute, ItsGathersGoThroughTheRingInTurn) {
  using enum Recompute;
  for (const RecomputeRun& run :
       {RecomputeRun{kNone}, {kFull}, {kOperators, 0, {kNorm, LayerOperator::kFc1}}}) {
    for (const std::int32_t layers : {0, 1, 2, 10, 11, 12, 20, 22, 40}) {
      // Of a unit, 0: an operator; and ten times those with one checkpoint.
      const std::int32_t together = std::max(1, layers / 10);
      if (together > 1 && run.mode != kFull) continue;
      const Gather gather = layers % 10 == 0 ? Gather::kOperator : Gather::of_layers(layers % 10);
      const Program program = program_of(plan_of_two_shards(run, gather, together));
      expect_in_turn(gathered_slots(program, false),
                     std::to_string(layers) + " " + std::to_string(static_cast<int>(run.mode)));
    }
  }
}

// What 8-bit moments leave of a layer is a unit beside its matrices, which stays while the layer is
// worked on: for a layer in the midst of a replay it comes twice.
TEST(Recompute, SoDoThoseOfTheUnitBesideTheMatrices) {
  for (const std::int32_t together : {1, 2, 4}) {
    Plan plan = plan_of_two_shards({Recompute::kFull}, Gather::kLayer, together);
    plan.optimizer.kind = OptimizerKind::kAdamW8Bit;
    const std::vector<std::int64_t> slots = gathered_slots(program_of(plan), true);
    EXPECT_EQ(std::ssize(slots), 4 * 2 - 4 / together);
    expect_in_turn(slots, std::to_string(together));
  }
}

// Of layers that are replayed together: the same work, fewer checkpoints, and the others' values
// beside those of the layer that backward is in.
TEST(Recompute, LayersWithOneCheckpointAreReplayedTogether) {
  Plan plan = plan_of({});
  plan.recompute = {{Recompute::kFull}};
  const auto counts = [&](std::int32_t together) {
    plan.checkpoint_layers = together;
    const Program program = program_of(plan);
    std::map<std::string, std::int64_t> of;
    for (const Buffer& b : program.buffers) {
      if (b.name == "layer_input") of["checkpoints"] = b.slots;
      if (b.name.ends_with("replay.input")) ++of["inputs between"];
      if (b.name.ends_with("replay.fc1")) of["replayed fc1"] += b.slots;
    }
    for (const Node& node : program.nodes) {
      if (node.kind != OpKind::kKernel) continue;
      std::int64_t times = 1;
      for (BlockIndex b = node.block; b != 0; b = program.blocks[b].parent)
        times *= program.blocks[b].count;
      of["replays"] += node.role.phase == Phase::kRecompute ? times : 0;
      of["kernels"] += times;
    }
    return of;
  };
  auto expected = counts(1);
  EXPECT_EQ(expected["checkpoints"], 5);  // with the last layer's output
  EXPECT_EQ(expected["replayed fc1"], 1);
  for (const std::int32_t together : {2, 4}) {
    expected["checkpoints"] = 4 / together + 1;
    expected["inputs between"] = together - 1;
    expected["replayed fc1"] = together;
    EXPECT_EQ(counts(together), expected) << together;
  }
}

TEST(RecomputeOperators, ArePartOfThePlanFile) {
  Plan plan = plan_of({kQkv, kNorm});
  plan.recompute = {{Recompute::kFull, 1}, {Recompute::kOperators, 0, {kQkv, kNorm}}};
  const std::string text = to_json(plan);
  EXPECT_EQ(plan_from_json(text, "p.json"), plan);
  EXPECT_NE(text.find("\"norm\",\n        \"qkv\""), text.npos) << text;
  Plan nothing = plan_of({});
  EXPECT_TRUE(illegal(nothing, 4));
  EXPECT_THROW(plan_from_json(to_json(nothing), "p.json"), Error);
  plan.gather = Gather::in_tiles(2);
  EXPECT_TRUE(illegal(plan, 4));
}

}  // namespace
}  // namespace zplan
