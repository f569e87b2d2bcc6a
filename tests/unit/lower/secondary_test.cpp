// Secondary shards: what forward gathers over all shards is kept in groups of neighbours, where
// backward and recomputation gather it.
#include <gtest/gtest.h>

#include <set>

#include "planner/lower/lower.h"
#include "planner/lower/ranks.h"

namespace zplan {
namespace {

constexpr int kDp = 8, kSecondary = 2, kLayers = 4;

Plan plan_of(int secondary) {
  Plan plan;
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.zero_stage = 3;
  plan.secondary = secondary;
  plan.batch = {.global_batch = 16, .micro_batch = 1, .sequence = 32};
  return plan;
}

// Untied, of 4 layers.
ModelConfig model() {
  ModelConfig model = load_model("tiny-gpt");
  model.tied_embeddings = false;
  return model;
}

std::string groups_text(const Plan& plan) {
  const Mesh mesh = mesh_of(plan);
  return sizes_text(mesh) + ": " + name(mesh, shard_axes(mesh));
}

TEST(SecondaryShards, SplitTheReplicasThatShareACopy) {
  Plan plan = plan_of(0);
  EXPECT_EQ(groups_text(plan), "tp 1 x dp 8 x pp 1: dp");
  plan.parallel.shards = 4;
  EXPECT_EQ(groups_text(plan), "tp 1 x dp.0 4 x dp.1 2 x pp 1: dp.0");
  plan.secondary = kSecondary;
  EXPECT_EQ(groups_text(plan), "tp 1 x dp.0 2 x dp.1 2 x dp.2 2 x pp 1: dp.0+dp.1");
  plan.parallel.shards = 0;
  EXPECT_EQ(groups_text(plan), "tp 1 x dp.0 2 x dp.1 4 x dp.2 1 x pp 1: dp.0+dp.1");
  plan.parallel.tp = 2;
  for (const RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst}) {
    plan.order = order;
    plan.parallel.pp = 3;
    const Mesh mesh = mesh_of(plan);
    EXPECT_FALSE(mesh_fault(mesh));
    EXPECT_EQ(mesh.axes[*mesh.find("dp.0")].stride, order == RankOrder::kDataFirst ? 2 : 6);
  }
}

// The phases in which parameters are gathered in groups of so many ranks.
std::set<Phase> phases_of_gathers(const Job& job, int size) {
  std::set<Phase> phases;
  for (const RankClass& c : job.classes)
    for (const Node& node : c.program.nodes)
      if (node.kind == OpKind::kCollective && node.role.action == Action::kGather &&
          job.mesh.size(node.group) == size)
        phases.insert(node.role.phase);
  return phases;
}

TEST(SecondaryShards, AreWhatBackwardAndRecomputationGather) {
  for (const int pp : {1, 2}) {
    Plan plan = plan_of(kSecondary);
    plan.parallel.pp = pp;
    plan.recompute = {{Recompute::kFull, 1}, {Recompute::kNone, 0}};
    const Job job = lower(plan, model());
    EXPECT_EQ(phases_of_gathers(job, kDp), std::set{Phase::kForward}) << pp;
    EXPECT_EQ(phases_of_gathers(job, kSecondary), (std::set{Phase::kRecompute, Phase::kBackward}));
    plan.secondary = 0;
    EXPECT_EQ(phases_of_gathers(lower(plan, model()), kDp),
              (std::set{Phase::kForward, Phase::kRecompute, Phase::kBackward}));
  }
}

// A head in pieces is first gathered in backward: there is no copy of it yet.
TEST(SecondaryShards, AreOfUnitsThatForwardHasGathered) {
  Plan plan = plan_of(kSecondary);
  plan.head_chunks = 2;
  const Job job = lower(plan, model());
  int heads = 0;
  for (const Node& node : job.classes[0].program.nodes) {
    if (node.kind != OpKind::kCollective || node.role.action != Action::kGather ||
        node.role.part != Part::kHead)
      continue;
    EXPECT_EQ(node.role.phase, Phase::kBackward);
    EXPECT_EQ(job.mesh.size(node.group), kDp);
    ++heads;
  }
  EXPECT_EQ(heads, 1);
  for (const Buffer& buffer : job.classes[0].program.buffers)
    EXPECT_FALSE(buffer.name.starts_with("secondary.head"));
}

TEST(SecondaryShards, HoldEachRanksPartOfTheGatheredUnit) {
  const Job job = lower(plan_of(kSecondary), model());
  const Program& program = job.classes[0].program;
  int kept = 0;
  for (const Node& node : program.nodes) {
    if (node.role.action != Action::kHold) continue;
    const View &part = program.operands(node)[0], &copy = program.operands(node)[1];
    EXPECT_EQ(node.role.phase, Phase::kForward);
    EXPECT_EQ(part.shape, copy.shape);
    AxisSteps steps{};
    steps[*job.mesh.find("dp.0")] = part.bytes().value;
    EXPECT_EQ(part.strides, steps);
    const Buffer& buffer = program.buffers[copy.buffer];
    EXPECT_EQ(buffer.slots, program.blocks[node.block].var == Var::kLayer ? kLayers : 1);
    EXPECT_EQ(buffer.slot_size, copy.bytes());
    EXPECT_EQ(buffer.shards, kSecondary);
    ++kept;
  }
  EXPECT_EQ(kept, static_cast<int>(job.units.size()));
}

// With their home elsewhere only forward brings parameters to the GPU, where the copies are.
TEST(SecondaryShards, StayOnTheGpu) {
  for (const Tier tier : {Tier::kCpu, Tier::kNvme}) {
    Plan plan = plan_of(kSecondary);
    plan.placement.params = plan.placement.optimizer = tier;
    plan.recompute = {{Recompute::kFull, 0}};
    const Job job = lower(plan, model());
    const Program& program = job.classes[0].program;
    for (const Node& node : program.nodes) {
      if (node.role.action == Action::kUpload && node.role.part != Part::kScalars) {
        EXPECT_EQ(node.role.phase, Phase::kForward);
      }
    }
    for (const Buffer& buffer : program.buffers) {
      if (!buffer.name.starts_with("secondary.")) continue;
      EXPECT_EQ(buffer.tier, Tier::kGpu);
      EXPECT_FALSE(buffer.persistent);
    }
  }
}

}  // namespace
}  // namespace zplan
