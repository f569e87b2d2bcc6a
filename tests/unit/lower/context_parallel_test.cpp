// Context parallel ranks: where they are in the mesh, what they have of a batch, and what a layer
// exchanges around the core of attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "planner/lower/context_axis.h"
#include "planner/lower/ranks.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Plan plan_of(std::int32_t cp, std::int64_t micro_batch = 1) {
  Plan plan;
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.cp = cp;
  plan.batch = {.global_batch = 8, .micro_batch = micro_batch, .sequence = 32};
  return plan;
}

AxisSet axes(const Mesh& mesh, std::initializer_list<const char*> names) {
  AxisSet set;
  for (const char* name : names) set.add(*mesh.find(name));
  return set;
}

const Node& node_of(const Job& job, Role role) {
  const std::vector<Node>& nodes = job.classes[0].program.nodes;
  return *std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.role == role; });
}

Shape shape_of(const Job& job, Role role, std::size_t operand) {
  return job.classes[0].program.operands(node_of(job, role))[operand].shape;
}

// Roles of what a phase does between the product of queries, keys and values and the projection.
// Micro-steps are alike, and gradients are those of whole layers.
std::vector<std::string> around_the_core(Plan plan, Phase phase) {
  plan.zero_stage = 2;
  plan.gather = Gather::kLayer;
  const Job job = lower(plan, load_model("tiny-llama"));
  std::vector<std::string> names;
  for (const Node& node : job.classes[0].program.nodes) {
    const Part part = node.role.part;
    if (node.role.phase != phase || part < Part::kQkv || part > Part::kProjection) continue;
    names.emplace_back(std::string(name(part)) + "." + std::string(name(node.role.action)));
  }
  return names;
}

// ---- the mesh -----------------------------------------------------------------------------------

TEST(ContextMesh, RanksOfASequenceAreNeighboursAroundATensorParallelGroup) {
  Plan plan = plan_of(2);
  plan.parallel.tp = 3;
  plan.parallel.dp = 4;
  plan.parallel.pp = 5;
  for (const RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst}) {
    plan.order = order;
    const Mesh mesh = mesh_of(plan);
    EXPECT_EQ(sizes_text(mesh), "tp 3 x cp 2 x dp 4 x pp 5");
    EXPECT_EQ(mesh.axes[1].stride, 3);
    EXPECT_EQ(mesh.axes[2].stride, order == RankOrder::kDataFirst ? 6 : 30);
    EXPECT_EQ(shard_axes(mesh), axes(mesh, {"cp", "dp"}));
  }
  EXPECT_EQ(sizes_text(mesh_of(plan_of(1))), "tp 1 x dp 1 x pp 1");
}

// Every group has whole sequences: its axes are those of the context and some of the data.
TEST(ContextMesh, GroupsOfReplicasHoldAllRanksOfTheirSequences) {
  Plan plan = plan_of(2);
  plan.parallel.dp = 16;
  plan.parallel.pp = 3;
  plan.parallel.shards = 16;
  plan.parameter_shards = 8;
  plan.secondary = 4;
  for (const RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst}) {
    plan.order = order;
    const Mesh mesh = mesh_of(plan);
    EXPECT_FALSE(mesh_fault(mesh));
    EXPECT_EQ(sizes_text(mesh), "tp 1 x dp.2 2 x cp 2 x dp.0 2 x dp.1 2 x dp.3 2 x pp 3");
    const AxisSet states = axes(mesh, {"cp", "dp.0", "dp.1", "dp.2"});
    EXPECT_EQ(shard_axes(mesh), states);
    EXPECT_EQ(neighbours(mesh, states, 8), axes(mesh, {"cp", "dp.0", "dp.1"}));
    EXPECT_EQ(neighbours(mesh, states, 4), axes(mesh, {"cp", "dp.0"}));
    EXPECT_EQ(neighbours(mesh, states, 2), axes(mesh, {"cp"}));
  }
}

// ---- what a rank has of a batch -----------------------------------------------------------------

TEST(ContextParallel, EachRankLoadsItsPartOfTheSequencesOfItsReplica) {
  Plan plan = plan_of(4, 2);
  plan.parallel.dp = 2;
  const Job job = lower(plan, load_model("tiny"));
  const Role load{Phase::kForward, Part::kBatch, Action::kCompute};
  EXPECT_EQ(shape_of(job, load, 0), (Shape{2, 9}));
  const Attributes& attributes = job.classes[0].program.attributes_of(node_of(job, load));
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    const AttributeValues own = resolve(attributes, job.mesh.point(rank));
    EXPECT_EQ(own, (AttributeValues{4, 8, rank / 4 * 2, rank % 4 * 8})) << rank;
  }
}

TEST(ContextParallel, TheLossIsAMeanOverTheTokensOfAllRanks) {
  const Job job = lower(plan_of(4), load_model("tiny"));
  const Role loss{Phase::kForward, Part::kLoss, Action::kCompute};
  EXPECT_EQ(job.classes[0].program.attributes_of(node_of(job, loss))[1], Attribute{8 * 32});
  const Node& sum = node_of(job, {Phase::kEnd, Part::kLoss, Action::kReduce});
  EXPECT_TRUE(sum.group.axes.has(*job.mesh.find(kContextAxis)));
  EXPECT_EQ(job.sequence, 32);
}

// The rank's rows of the learned positions; their gradient has zeros where other ranks have theirs.
TEST(ContextParallel, PositionsAreThoseOfTheRanksTokens) {
  const Job job = lower(plan_of(4), load_model("tiny"));
  const Program& program = job.classes[0].program;
  const Bytes rows = size_of(DType::kF32) * (8 * 64);
  const auto expect_own = [&](const Node& node) {
    const View& own = program.operands(node)[3];
    EXPECT_EQ(own.shape, (Shape{8, 64}));
    EXPECT_EQ(own.strides[*job.mesh.find(kContextAxis)], rows.value);
  };
  expect_own(node_of(job, {Phase::kForward, Part::kEmbedding, Action::kCompute}));
  const Node& backward =
      node_of(job, {Phase::kBackward, Part::kEmbedding, Action::kWeightGradient});
  expect_own(backward);
  EXPECT_EQ(program.operands(backward)[3].access, Access::kUpdate);
}

TEST(ContextParallel, PositionsThatAreWrittenAreZeroBefore) {
  const Role zero{Phase::kBackward, Part::kPosition, Action::kWeightGradient};
  Plan plan = plan_of(4, 8);  // one micro-step: gradients are written
  const Job job = lower(plan, load_model("tiny"));
  EXPECT_EQ(shape_of(job, zero, 0), (Shape{32, 64}));
  plan.parallel.cp = 1;
  const Job alone = lower(plan, load_model("tiny"));
  for (const Node& node : alone.classes[0].program.nodes) EXPECT_NE(node.role, zero);
}

// ---- a layer ------------------------------------------------------------------------------------

TEST(ContextParallel, AnExchangeStandsOnBothSidesOfTheCore) {
  EXPECT_THAT(
      around_the_core(plan_of(2), Phase::kForward),
      ElementsAre("qkv.compute", "qkv.pack", "qkv.exchange", "rope.compute", "attention.compute",
                  "attention.exchange", "attention.unpack", "projection.compute"));
  EXPECT_THAT(
      around_the_core(plan_of(2), Phase::kBackward),
      ElementsAre("projection.weight_gradient", "projection.input_gradient", "attention.pack",
                  "attention.exchange", "attention.input_gradient", "rope.input_gradient",
                  "qkv.exchange", "qkv.unpack", "qkv.weight_gradient", "qkv.input_gradient"));
  const Job job = lower(plan_of(2), load_model("tiny-llama"));
  const Node& exchange = node_of(job, {Phase::kForward, Part::kQkv, Action::kExchange});
  EXPECT_EQ(exchange.collective, CollectiveKind::kAllToAll);
  EXPECT_EQ(exchange.lane, Lane::kCommTensor);
  EXPECT_EQ(exchange.group, (Group{axes(job.mesh, {"cp"})}));
}

// The tokens of several sequences do not lie in order as they come.
TEST(ContextParallel, SeveralSequencesArePutInOrderToo) {
  EXPECT_THAT(around_the_core(plan_of(2, 2), Phase::kForward),
              ElementsAre("qkv.compute", "qkv.pack", "qkv.exchange", "qkv.unpack", "rope.compute",
                          "attention.compute", "attention.pack", "attention.exchange",
                          "attention.unpack", "projection.compute"));
}

TEST(ContextParallel, TheCoreHasAPartOfTheHeadsOfWholeSequences) {
  Plan plan = plan_of(2, 2);
  const Role qkv{Phase::kForward, Part::kQkv, Action::kCompute},
      core{Phase::kForward, Part::kAttention, Action::kCompute},
      rope{Phase::kForward, Part::kRope, Action::kCompute};
  for (const std::string kernels : {"cpu.f32", "cpu.f32.unfused"}) {
    plan.kernel_set = kernels;
    const Job job = lower(plan, load_model("tiny-llama"));  // 4 heads and 2 x 2, 16 wide
    EXPECT_EQ(shape_of(job, qkv, 0), (Shape{32, 64}));
    EXPECT_EQ(shape_of(job, qkv, 2), (Shape{32, 128}));
    EXPECT_EQ(shape_of(job, rope, 0), (Shape{2, 32, 4, 16}));
    const bool fused = kernels == "cpu.f32";
    EXPECT_EQ(shape_of(job, core, fused ? 0 : 1), (Shape{2, 32, 1, 64}));
    EXPECT_EQ(shape_of(job, core, fused ? 1 : 2), (Shape{2, 32, 2, 16}));
    if (!fused) {
      EXPECT_EQ(shape_of(job, core, 0), (Shape{2, 2, 32, 32}));
    }
    const Attributes& turned = job.classes[0].program.attributes_of(node_of(job, rope));
    EXPECT_EQ(turned[0], Attribute{3}) << "2 of 4 queries, 1 of 2 keys";
    // Of queries, keys and values each has its part.
    const Node& pack = node_of(job, {Phase::kForward, Part::kQkv, Action::kPack});
    const Attributes& segments = job.classes[0].program.attributes_of(pack);
    EXPECT_EQ(segments[0], Attribute{64});
    EXPECT_EQ(segments[1], Attribute{32});
  }
}

TEST(ContextParallel, OfOneRankNothingIsExchanged) {
  const Job job = lower(plan_of(1), load_model("tiny-llama"));
  for (const Node& node : job.classes[0].program.nodes) {
    EXPECT_NE(node.kind, OpKind::kCollective);
    EXPECT_NE(node.role.action, Action::kPack);
  }
}

// A replay of some operators exchanges what it computes again, and no more.
TEST(ContextParallel, AReplayExchangesWhatItComputes) {
  Plan plan = plan_of(2);
  const auto replayed = [&](OperatorSet operators) {
    plan.recompute = {{Recompute::kOperators, 0, operators}};
    return around_the_core(plan, Phase::kRecompute);
  };
  using enum LayerOperator;
  EXPECT_THAT(replayed({kQkv}),
              ElementsAre("qkv.compute", "qkv.pack", "qkv.exchange", "rope.compute"));
  EXPECT_THAT(replayed({kAttention}),
              ElementsAre("attention.compute", "attention.exchange", "attention.unpack"));
  EXPECT_THAT(replayed({kNorm, kActivation}), IsEmpty());
}

// What a stage hands on is of the rank's tokens.
TEST(ContextParallel, BoundariesAreOfTheRanksTokens) {
  Plan plan = plan_of(2, 2);
  plan.parallel.pp = 2;
  plan.parallel.tp = 2;
  const Job job = lower(plan, load_model("tiny"));
  const Role send{Phase::kForward, Part::kBoundary, Action::kSend};
  EXPECT_EQ(shape_of(job, send, 0), (Shape{32, 64}));
  plan.parallel.sequence_parallel = true;
  EXPECT_EQ(shape_of(lower(plan, load_model("tiny")), send, 0), (Shape{16, 64}));
}

}  // namespace
}  // namespace zplan
