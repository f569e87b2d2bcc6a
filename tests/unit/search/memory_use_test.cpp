#include "planner/search/memory_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "hwprofiles/seating.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/search/bytes_bound.h"
#include "tests/support/meshes.h"
#include "tests/support/pinned.h"

namespace zplan {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing_support::pinned;

constexpr std::size_t kGpu = 0, kCpu = 1, kNvme = 2;

Plan sample_plan(const ModelConfig& model, const Cluster& cluster) {
  Pins pins = pinned({{"/parallel/pp", "2"},
                      {"/zero_stage", "3"},
                      {"/recompute", "full"},
                      {"/placement/params", "cpu"},
                      {"/placement/grads", "cpu"},
                      {"/placement/optimizer", "cpu"},
                      {"/placement/activations", "cpu"}});
  return enumerate(model, cluster, pins).front();
}

Job placed(const Plan& plan, const ModelConfig& model) {
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  return job;
}

using testing_support::mesh_of;

// Every node, rank by rank.
std::set<NodeFill> all_fills(const Mesh& mesh, const Cluster& cluster) {
  const Seating seating(cluster, mesh.gpus);
  std::map<int, std::map<std::int32_t, std::int64_t>> nodes;
  for (int rank = 0; rank < mesh.world(); ++rank)
    ++nodes[seating.node_of(rank)][mesh.point(rank)[testing_support::kPp]];
  std::set<NodeFill> result;
  for (const auto& [node, stages] : nodes) {
    NodeFill fill;
    for (const auto& [stage, ranks] : stages) fill.push_back({stage, ranks});
    result.insert(fill);
  }
  return result;
}

TEST(NodeFills, FollowTheDevicesThatRanksHave) {
  const Cluster cluster = load_cluster("dgx2x32");
  Mesh mesh = mesh_of({.dp = 9, .tp = 2, .pp = 3});
  mesh.gpus = {0, 4, 8, 12, 15};
  const std::vector<NodeFill> fills = node_fills(mesh, cluster);
  EXPECT_EQ(std::set<NodeFill>(fills.begin(), fills.end()), all_fills(mesh, cluster));
}

TEST(NodeFills, AreThoseOfACountRankByRank) {
  const Cluster cluster = load_cluster("dgx2x32");
  for (const bool pipeline_first : {false, true})
    for (const int tp : {1, 2, 3, 8})
      for (int pp = 1; pp <= 7; ++pp)
        for (int dp = 1; dp <= 70; dp += tp) {
          const Mesh mesh =
              mesh_of({.dp = dp, .tp = tp, .pp = pp, .pipeline_first = pipeline_first});
          const std::vector<NodeFill> fills = node_fills(mesh, cluster);
          const std::set<NodeFill> expected = all_fills(mesh, cluster);
          EXPECT_EQ(std::set<NodeFill>(fills.begin(), fills.end()), expected)
              << "dp " << dp << " tp " << tp << " pp " << pp;
          EXPECT_EQ(fills.size(), expected.size());
        }
}

TEST(MemoryUse, TakesTheWorstClassAndTheFullestNode) {
  const Cluster cluster = load_cluster("dgx2x2");
  const std::vector<TierBytes> bytes{{Bytes{100}, Bytes{10}, Bytes{1}},
                                     {Bytes{90}, Bytes{20}, Bytes{0}}};
  // 20 ranks: node 0 holds ten of stage 0 and six of stage 1, node 1 four of stage 1.
  const MemoryUse use =
      memory_use(bytes, node_fills(mesh_of({.dp = 10, .pp = 2}), cluster), cluster);
  EXPECT_EQ(use[kGpu].peak, Bytes{100});
  EXPECT_EQ(use[kCpu].peak, Bytes{10 * 10 + 6 * 20});
  EXPECT_EQ(use[kNvme].peak, Bytes{10});
  EXPECT_EQ(use[kGpu].capacity, cluster.node.device.memory);
  EXPECT_EQ(use[kGpu].reserve, cluster.node.device.reserve());
  EXPECT_EQ(use[kCpu].capacity, cluster.node.host.memory);
  EXPECT_EQ(use[kCpu].reserve, cluster.node.host.reserve);
  EXPECT_EQ(use[kNvme].capacity, cluster.node.nvme.capacity);
}

TEST(MemoryUse, OfAJobIsItsSlabs) {
  const ModelConfig model = load_model("tiny");
  const Cluster cluster = load_cluster("workstation");
  const Plan plan = sample_plan(model, cluster);
  const Job job = placed(plan, model);
  const MemoryUse use = memory_use(job, cluster);
  Bytes gpu{0}, cpu{0};
  for (const RankClass& c : job.classes) {
    gpu = std::max(gpu, c.placement.slab[kGpu]);
    cpu += c.placement.slab[kCpu] * plan.parallel.dp;
  }
  EXPECT_EQ(use[kGpu].peak, gpu);
  EXPECT_EQ(use[kCpu].peak, cpu);
  EXPECT_EQ(use[kNvme].peak, Bytes{0});
  const MemoryUse before = memory_use(lower(plan, model), cluster);
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    Bytes categories{0};
    for (const Bytes bytes : use[tier].by_category) categories += bytes;
    EXPECT_EQ(categories, before[tier].peak) << "by category: the live peak";
    EXPECT_LE(before[tier].peak, use[tier].peak);
  }
}

TEST(CheckFit, NamesTheTierTheOperationAndTheLargestBuffers) {
  const ModelConfig model = load_model("tiny");
  Cluster cluster = load_cluster("workstation");
  const Plan plan = sample_plan(model, cluster);
  const Job job = placed(plan, model);
  EXPECT_EQ(check_fit(job, cluster), std::nullopt);

  const MemoryUse use = memory_use(job, cluster);
  cluster.node.device.memory = use[kGpu].peak + use[kGpu].reserve + use[kGpu].headroom;
  EXPECT_EQ(check_fit(job, cluster), std::nullopt) << "exactly full";
  cluster.node.device.memory -= Bytes{1};
  const auto gpu = check_fit(job, cluster);
  ASSERT_TRUE(gpu.has_value());
  EXPECT_EQ(gpu->tier, Tier::kGpu);
  EXPECT_EQ(gpu->needed, use[kGpu].peak);
  EXPECT_EQ(gpu->available, use[kGpu].peak - Bytes{1});
  EXPECT_THAT(gpu->peak_op, Not(IsEmpty()));
  EXPECT_THAT(gpu->largest, SizeIs(5));
  EXPECT_GE(gpu->largest[0].size, gpu->largest[1].size);

  // Now the host is worse.
  cluster.node.host.memory = use[kCpu].peak / 2 + cluster.node.host.reserve;
  const auto cpu = check_fit(job, cluster);
  ASSERT_TRUE(cpu.has_value());
  EXPECT_EQ(cpu->tier, Tier::kCpu);
  EXPECT_NEAR(cpu->overload(), 2.0, 1e-6);
  const LiveBuffer& largest = cpu->largest[0];
  Bytes on_node{0};  // all ranks of both stages
  for (const ClassMemory& c : measure(job).classes)
    for (const LiveBuffer& buffer : c.tiers[kCpu].largest)
      if (buffer.name == largest.name) on_node += buffer.size * plan.parallel.dp;
  EXPECT_EQ(largest.size, on_node);
}

// 16 bytes per parameter without sharding [Rajbhandari20 sec 3.1]: no placement of a trillion
// parameters on one GPU each takes less.
TEST(BytesBound, CountsTheStatesOfATrillionParameters) {
  const ModelConfig model = load_model("1T");
  Pins pins = pinned({{"/parallel/pp", "1"},
                      {"/zero_stage", "0"},
                      {"/placement/params", "gpu"},
                      {"/placement/grads", "gpu"},
                      {"/placement/optimizer", "gpu"}});
  const Plan plan = enumerate(model, load_cluster("dgx2x32"), pins).front();
  const std::vector<TierBytes> bound = bytes_bound(plan, model);
  ASSERT_THAT(bound, SizeIs(1));
  EXPECT_GT(bound[0][kGpu].value, 16e12);
  EXPECT_LT(bound[0][kGpu].value, 17.5e12);
  EXPECT_EQ(bound[0][kCpu], Bytes{0});
}

// The same plan in two spellings: the second has runs of layers that are recomputed alike, of whose
// stages each is counted by itself.
TEST(BytesBound, OfStagesInTheMiddleIsThatOfEachCountedByItself) {
  const ModelConfig model = load_model("175B");
  Plan plan = pinned({{"/kernel_set", "cuda.sm70.fp16"}}).values();
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = true;
  plan.batch = {256, 1, model.sequence};
  for (const std::int32_t pp : {4, 8, 16})
    for (const Recompute mode : {Recompute::kNone, Recompute::kFull})
      for (const Tier tier : {Tier::kGpu, Tier::kCpu}) {
        plan.parallel.pp = pp;
        plan.placement.optimizer = tier;
        if (mode == Recompute::kFull) plan.placement.activations = tier;
        plan.recompute = {{mode, 0}};
        Plan spelled = plan;
        spelled.recompute = {{mode, 6}, {mode, 0}};
        ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
        EXPECT_EQ(bytes_bound(plan, model), bytes_bound(spelled, model)) << to_json(plan);
      }
}

// The units that the first layers alone have are left out of a bound, with all that is kept of
// them: factored moments, too, which are counted by tensor.
TEST(BytesBound, OfAModelWhoseFirstLayersAreDenseIsBelowWhatIsPlaced) {
  ModelConfig model = load_model("llama3-8b");
  model.layers = 2;
  model.heads = model.kv_heads = 4;
  model.hidden = 32;
  model.ffn = 16;
  model.vocab = 500;
  model.sequence = 64;
  model.global_batch = 4;
  model.experts = ExpertShape{.count = 4, .per_token = 2, .ffn = 16, .dense_layers = 1};
  const Cluster cluster = load_cluster("dgx-a100");
  int plans = 0;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdafactor})
    for (const char* home : {"gpu", "cpu", "nvme"}) {
      Pins pins = pinned({{"/parallel/dp", "2"}, {"/parallel/tp", "1"}, {"/zero_stage", "0"}});
      pins.set("/placement/optimizer", std::string(home));
      pins.set("/optimizer/kind", kind);
      for (const Plan& plan : enumerate(model, cluster, pins)) {
        Job job = lower(plan, model);
        place(job, {.slack = 0});
        const std::vector<TierBytes> bound = bytes_bound(plan, model);
        for (std::size_t stage = 0; stage < bound.size(); ++stage)
          for (std::size_t tier = 0; tier < kTierCount; ++tier)
            ASSERT_LE(bound[stage][tier], job.classes[stage].placement.slab[tier])
                << to_json(plan) << name(static_cast<Tier>(tier));
        ++plans;
      }
    }
  EXPECT_GT(plans, 50);
}

// Of a product without factors backward does not read the input, which goes after forward.
TEST(BytesBound, OfLoraBesideSomeProductsIsBelowWhatIsPlaced) {
  ModelConfig model = load_model("tiny");
  model.layers = 2;
  model.heads = model.kv_heads = 2;
  model.hidden = model.ffn = 48;
  model.vocab = 5000;
  model.sequence = 300;
  model.global_batch = 48;
  const Cluster cluster = load_cluster("dgx2");
  for (const ParallelResidual residual :
       {ParallelResidual::kNone, ParallelResidual::kTwoNorms, ParallelResidual::kOneNorm})
    for (const char* targets : {"all", "attention", "mlp", "qkv"})
      for (const auto& [recompute, cp] :
           {std::pair("none", "1"), {"full", "1"}, {"none", "2"}, {"norm+qkv+activation", "2"}}) {
        model.layer.parallel_residual = residual;
        Pins pins = pinned({{"/parallel/dp", "6"},
                            {"/parallel/tp", "1"},
                            {"/parallel/pp", "1"},
                            {"/zero_stage", "2"},
                            {"/kernel_set", "cuda.sm70.fp16.unfused"},
                            {"/batch/micro_batch", "4"},
                            {"/train/what", "lora"},
                            {"/train/targets", targets},
                            {"/recompute", recompute},
                            {"/parallel/cp", cp},
                            {"/placement/optimizer", "gpu"},
                            {"/placement/grads", "gpu"},
                            {"/placement/activations", "gpu"}});
        const Plan plan = enumerate(model, cluster, pins).front();
        Job job = lower(plan, model);
        place(job, {.slack = 0});
        const Bytes bound = bytes_bound(plan, model)[0][kGpu];
        const Bytes placed = job.classes[0].placement.slab[kGpu];
        EXPECT_LE(bound, placed) << targets << " " << recompute;
        EXPECT_GT(bound, placed * 3 / 4) << targets << " " << recompute;
      }
}

// Legal numbers of a model, one by one; together they exceed 64 bits many times over.
TEST(BytesBound, SaturatesWhereNothingCouldCountTheBytes) {
  ModelConfig model = load_model("tiny");
  model.layers = 10'000;
  model.ffn = 8'388'608;
  model.sequence = 4096;
  const Cluster cluster = load_cluster("dgx2");
  Plan plan = sample_plan(load_model("tiny"), cluster);
  plan.recompute = {{Recompute::kNone}};
  plan.placement.activations = Tier::kGpu;
  plan.parallel.dp = 1;
  plan.batch = {.global_batch = 1'048'576, .micro_batch = 1'048'576, .sequence = 4096};
  for (const TierBytes& rank : bytes_bound(plan, model)) {
    EXPECT_EQ(rank[kGpu], kMostBytes);
    EXPECT_GT(rank[kCpu], Bytes{std::int64_t{10'000} * 8'388'608});
  }
  const auto why = make_evaluator(model, cluster).estimate(plan).infeasible;
  ASSERT_TRUE(why);
  EXPECT_EQ(why->tier, Tier::kGpu);
  EXPECT_GT(why->overload(), 1);
}

TEST(MemoryUse, SaturatesOverTheRanksOfANode) {
  const std::vector<TierBytes> ranks{{Bytes{0}, kMostBytes - Bytes{1}, Bytes{0}}};
  const MemoryUse use = memory_use(ranks, {{{0, 16}}}, load_cluster("dgx2"));
  EXPECT_EQ(use[kCpu].peak, kMostBytes);
  EXPECT_FALSE(use[kCpu].fits());
}

}  // namespace
}  // namespace zplan
