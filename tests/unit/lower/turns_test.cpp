// Layers that take turns: each has the window and the rotation of its own turn, wherever loops,
// stages and units begin and end, and each is there once.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/instances/unroll.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

ModelConfig model_of(std::int64_t layers, std::int64_t windows, std::int64_t full) {
  ModelConfig model = load_model("tiny-gemma");
  model.layers = layers;
  model.layer.window_layers = windows;
  model.layer.full_layers = full;
  model.layer.local_rope_theta = 77;
  return model;
}

Plan plan_of(std::int64_t sequence) {
  Plan plan;
  plan.kernel_set = "cpu.f64";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 8, .micro_batch = 2, .sequence = sequence};
  return plan;
}

// What kernels of a phase have in an attribute, by layer.
std::map<std::int64_t, std::vector<std::int64_t>> by_layer(const Job& job, Phase phase,
                                                           KernelId kernel, std::size_t attribute) {
  std::map<std::int64_t, std::vector<std::int64_t>> found;
  for (const RankClass& c : job.classes) {
    const Program& p = c.program;
    for (const Node& n : p.nodes) {
      if (n.kind != OpKind::kKernel || n.kernel != kernel || n.role.phase != phase) continue;
      BlockIndex block = n.block;
      while (p.blocks[block].var != Var::kLayer) block = p.blocks[block].parent;
      const Block& loop = p.blocks[block];
      for (std::int32_t i = 0; i < loop.count; ++i)
        found[(loop.first + std::int64_t{loop.step} * i) * p.unit_layers + n.member].push_back(
            p.attributes_of(n)[attribute].base);
    }
  }
  return found;
}

void expect_turns(const Plan& plan, const ModelConfig& model) {
  Job job = lower(plan, model);
  place(job);
  EXPECT_TRUE(verify(job).empty());
  for (const Phase phase : {Phase::kForward, Phase::kRecompute, Phase::kBackward}) {
    if (phase == Phase::kRecompute && !plan.all_full()) continue;
    const KernelId attention =
        phase == Phase::kBackward ? KernelId::kAttentionBackward : KernelId::kAttentionForward;
    const auto windows = by_layer(job, phase, attention, 0);
    const auto thetas = by_layer(job, phase, KernelId::kRope, 1);
    ASSERT_EQ(std::ssize(windows), model.layers);
    for (const auto& [layer, values] : windows)
      for (const std::int64_t value : values) EXPECT_EQ(value, model.layer.window_of(layer));
    for (const auto& [layer, values] : thetas)
      for (const std::int64_t value : values)
        EXPECT_EQ(value, model.layer.window_of(layer) > 0 ? 77 : 10000);
  }
}

TEST(Turns, OfLayersThatFillThemAndThatDoNot) {
  for (const std::int64_t layers : {1, 2, 5, 6, 7, 12, 13})
    for (const auto& [windows, full] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 1}, {2, 3}})
      expect_turns(plan_of(32), model_of(layers, windows, full));
}

TEST(Turns, GoOnFromStageToStage) {
  const ModelConfig model = model_of(9, 2, 1);
  Plan plan = plan_of(32);
  plan.parallel.pp = 2;
  plan.stage_layers = {4, 5};
  expect_turns(plan, model);
  plan.stage_layers = {1, 8};
  expect_turns(plan, model);
  plan.stage_layers.clear();
  plan.parallel.pp = 3;
  plan.recompute = {{Recompute::kFull, 2}, {Recompute::kNone, 3}, {Recompute::kSelective, 0}};
  expect_turns(plan, model);
}

// Loops of layers with experts begin within a turn.
TEST(Turns, GoOnWhereExpertsBegin) {
  ModelConfig model = model_of(9, 2, 1);
  model.layer.post_norms = false;
  model.experts = ExpertShape{.count = 4, .per_token = 2, .ffn = 32, .dense_layers = 2};
  Plan plan = plan_of(32);
  expect_turns(plan, model);
  plan.recompute = {{Recompute::kFull, 4}, {Recompute::kNone, 0}};
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  plan.parallel.ep = 2;
  plan.expert_imbalance = 0;
  plan.batch.micro_batch = 1;
  expect_turns(plan, model);
  plan.parallel.pp = 2;
  plan.stage_layers = {1, 8};
  expect_turns(plan, model);
}

TEST(Turns, GoOnWithinUnitsOfSeveralLayers) {
  Plan plan = plan_of(32);
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  plan.gather = Gather::of_layers(2);
  expect_turns(plan, model_of(8, 2, 1));
  expect_turns(plan, model_of(10, 1, 1));
  plan.gather = Gather::kLayer;
  expect_turns(plan, model_of(5, 1, 1));
  plan.gather = Gather::in_tiles(2);
  plan.placement.params = Tier::kNvme;
  plan.placement.optimizer = Tier::kNvme;
  expect_turns(plan, model_of(5, 1, 1));
}

TEST(Turns, GoOnWithinLayersOfOneCheckpoint) {
  Plan plan = plan_of(32);
  plan.recompute = {{Recompute::kFull}};
  for (const std::int32_t together : {1, 2, 4}) {
    plan.checkpoint_layers = together;
    expect_turns(plan, model_of(8, 2, 1));
    expect_turns(plan, model_of(16, 5, 1));
  }
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  plan.gather = Gather::of_layers(2);
  expect_turns(plan, model_of(8, 2, 1));
}

// Those of a model whose layers are alike stay one loop.
TEST(Turns, AreOneLoopOfWholeTurnsAndOneOfTheRest) {
  const auto loops = [](const ModelConfig& model) {
    const Job job = lower(plan_of(32), model);
    std::set<std::pair<std::int32_t, std::int32_t>> found;  // iterations, step
    for (const Block& block : job.classes[0].program.blocks)
      if (block.var == Var::kLayer) found.emplace(block.count, std::abs(block.step));
    return found;
  };
  using Loops = std::set<std::pair<std::int32_t, std::int32_t>>;
  EXPECT_EQ(loops(model_of(6, 1, 0)), (Loops{{6, 1}}));
  EXPECT_EQ(loops(model_of(7, 2, 1)), (Loops{{2, 3}, {1, 1}}));
}

TEST(Turns, AreNotCutByOwnersOfLayers) {
  Plan plan = plan_of(32);
  plan.zero_stage = 3;
  plan.parallel.dp = 4;
  plan.gather = Gather::kOwned;
  const ModelConfig cut = model_of(12, 2, 1), whole = model_of(12, 1, 1);
  EXPECT_EQ(illegal(plan, shape_of(whole)), std::nullopt);
  EXPECT_EQ(illegal(plan, shape_of(cut)),
            "4 layers with an owner each come at a time, which cuts turns of 3 layers; the nearest "
            "dp that does not: 3");
  expect_turns(plan, whole);
}

}  // namespace
}  // namespace zplan
