// Parameters and gradients of a part of the layers one tier nearer than those of the others, beside
// optimizer states, each by a share of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/text/text.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

constexpr int kLayers = 4;  // of tiny-gpt

Plan plan_of(Tier home, double params, double grads, Gather gather = Gather::kLayer) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.kernel_set = "cpu.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.gather = gather;
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  plan.batch = {.global_batch = 8, .micro_batch = 2, .sequence = 32};
  plan.placement = {home, home, home, Tier::kGpu, 0, params, grads};
  return plan;
}

Job job_of(const Plan& plan) { return lower(plan, load_model(plan.model)); }

// Slots of the buffers of layers in the tier whose names begin so, but for "near.".
std::int64_t layers_in(const Job& job, const std::string& prefix, Tier tier) {
  std::int64_t slots = 0;
  for (const Buffer& buffer : job.classes[0].program.buffers) {
    std::string name = buffer.name;
    if (name.starts_with("near.")) name = name.substr(5);
    if (buffer.tier == tier && name == prefix + "layer") slots += buffer.slots;
  }
  return slots;
}

TEST(NearStates, AreThoseOfWholeLayersAndNeverOfMoreThanTheShare) {
  const std::pair<double, int> shares[] = {{0.1, 0}, {0.25, 1}, {0.49, 1}, {0.5, 2}, {0.99, 3}};
  for (const auto& [far, near] : {std::pair{Tier::kCpu, Tier::kGpu}, {Tier::kNvme, Tier::kCpu}})
    for (const auto& [share, layers] : shares) {
      const Job params = job_of(plan_of(far, share, 0)), grads = job_of(plan_of(far, 0, share));
      for (const auto& [job, prefix] : {std::pair{&params, "param."}, {&grads, "grad."}}) {
        EXPECT_EQ(layers_in(*job, prefix, near), layers) << prefix << share;
        EXPECT_EQ(layers_in(*job, prefix, far), kLayers - layers) << prefix << share;
      }
      EXPECT_EQ(layers_in(params, "grad.", far), kLayers);
      EXPECT_EQ(layers_in(grads, "param.", far), kLayers);
    }
}

// Layers of the loops in which nodes with the role are, in their order.
std::vector<std::pair<int, int>> loops_with(const Job& job, Phase phase, Action action) {
  std::vector<std::pair<int, int>> loops;
  const Program& program = job.classes[0].program;
  for (const Node& node : program.nodes) {
    const Block& block = program.blocks[node.block];
    if (node.role.phase != phase || node.role.action != action || block.var != Var::kLayer)
      continue;
    if (loops.empty() || loops.back() != std::pair{block.first, block.count})
      loops.emplace_back(block.first, block.count);
  }
  return loops;
}

using Loops = std::vector<std::pair<int, int>>;

TEST(NearStates, CutTheLoopsThatTouchThemAndNoOthers) {
  const Job params = job_of(plan_of(Tier::kCpu, 0.25, 0));
  EXPECT_EQ(loops_with(params, Phase::kForward, Action::kGather), (Loops{{0, 1}, {1, 3}}));
  EXPECT_EQ(loops_with(params, Phase::kForward, Action::kUpload), (Loops{{1, 3}}));
  EXPECT_EQ(loops_with(params, Phase::kBackward, Action::kGather), (Loops{{3, 3}, {0, 1}}));
  EXPECT_EQ(loops_with(params, Phase::kUpdate, Action::kSquare), (Loops{{0, 4}}));
  const Job grads = job_of(plan_of(Tier::kCpu, 0, 0.5));
  EXPECT_EQ(loops_with(grads, Phase::kForward, Action::kGather), (Loops{{0, 4}}));
  EXPECT_EQ(loops_with(grads, Phase::kBackward, Action::kReduce), (Loops{{3, 2}, {1, 2}}));
  EXPECT_EQ(loops_with(grads, Phase::kUpdate, Action::kSquare), (Loops{{0, 2}, {2, 2}}));
  Plan both = plan_of(Tier::kNvme, 0.5, 0.25);
  both.placement.optimizer_near = 0.75;
  EXPECT_EQ(loops_with(job_of(both), Phase::kUpdate, Action::kAdam),
            (Loops{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
}

// In a buffer of its own each home has its first layer in slot 0, so that readers of the Job find
// the layers by their numbers.
TEST(NearStates, CountTheSlotsOfEachHomeFromItsFirstLayer) {
  constexpr std::int32_t kMany = 1 << 20;  // slots, of which none is counted twice
  const Job job = job_of(plan_of(Tier::kCpu, 0.25, 0));
  const Program& program = job.classes[0].program;
  std::map<std::string, std::set<std::int64_t>> used;
  for (const Node& node : program.nodes) {
    const Block& block = program.blocks[node.block];
    if (node.role.phase != Phase::kForward || block.var != Var::kLayer) continue;
    for (const View& view : program.operands(node))
      for (std::int32_t i = 0; i < block.count; ++i)
        used[program.buffers[view.buffer].name].insert(
            view.slot.at({.layer = block.first + i * block.step}, kMany));
  }
  EXPECT_EQ(used["near.param.layer"], (std::set<std::int64_t>{0}));
  EXPECT_EQ(used["param.layer"], (std::set<std::int64_t>{0, 1, 2}));
}

// A tied embedding, too: it is needed before the first layer.
TEST(NearStates, TakeTheEndsOfTheModelWithTheLayersBesideThem) {
  for (const char* model : {"tiny-gpt", "tiny-llama"}) {
    Plan plan = plan_of(Tier::kNvme, 0.5, 0);
    plan.model = model;
    const Job job = job_of(plan);
    for (const UnitHome& home : job.classes[0].homes) {
      const Unit& unit = job.units[home.unit];
      if (unit.per_layer) continue;
      const bool is_last = unit.name == "head" || unit.name == "final_norm";
      const Tier tier = job.classes[0].program.buffers[home.param.buffer].tier;
      EXPECT_EQ(tier, is_last ? Tier::kNvme : Tier::kCpu) << model << " " << unit.name;
      EXPECT_FALSE(home.param.rest) << unit.name;
    }
  }
}

TEST(NearStates, AreSoundInEveryKindOfUnitScheduleAndModel) {
  for (const char* model : {"tiny-gpt", "tiny-gemma", "tiny-deepseek", "tiny-blender"})
    for (const Tier tier : {Tier::kCpu, Tier::kNvme})
      for (const Gather gather : {Gather(Gather::kOperator), Gather(Gather::kLayer),
                                  Gather::of_layers(2), Gather::in_tiles(2)})
        for (const bool beside : {false, true}) {
          Plan plan = plan_of(tier, 0.5, 0.3, gather);
          plan.model = model;
          plan.placement.optimizer_near = 0.8;
          plan.overlap.optimizer = beside;
          plan.clip = !beside;
          const ModelConfig config = load_model(model);
          if (illegal(plan, shape_of(config))) continue;
          Job job = lower(plan, config);
          place(job, {.slack = plan.slack});
          EXPECT_TRUE(verify(job).empty()) << verify(job).front();
        }
}

TEST(NearStates, AreReadBackFromTextWithBothHomes) {
  const Job job = job_of(plan_of(Tier::kNvme, 0.5, 0.5));
  EXPECT_EQ(to_text(parse_zprog(to_text(job), "job.zprog")), to_text(job));
}

}  // namespace
}  // namespace zplan
