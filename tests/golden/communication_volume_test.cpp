// Elements that a rank sends per step, counted from the collectives of lowered Jobs, against the
// papers. Psi parameters, N data parallel ranks, m micro-steps; a ring sends (N - 1) / N of its
// buffer, an all-reduce twice that [Patarasuk09].
//   ZeRO 0, 1   2 Psi (N - 1) / N, gradients are reduced after the last micro-step
//   ZeRO 2      (m + 1) Psi: a reduce-scatter per micro-step, one all-gather of the new parameters
//   ZeRO 3      3 m Psi: an all-gather forward, one backward, a reduce-scatter
// [Rajbhandari20 sec 7.1, 7.2], there with m = 1. What the papers do not count: parameters outside
// the layers are not needed again in backward where only their gradient is (embeddings), and twice
// where they are tied.
// Tensor parallel, per layer and micro-step of b s h elements (t - 1) / t:
//   TP          4 all-reduces, 6 with full recompute [Shoeybi19 sec 3], [Rajbhandari20 sec 8.1]
//   TP + SP     the same bytes as all-gathers and reduce-scatters, and two all-gathers more for the
//               norms of which each rank keeps its part [Korthikanti22 sec 4.2.2]; gradients of the
//               norms and of the biases after a reduce-scatter are summed once per step
//   Pa          one all-gather more than TP with full recompute [Rajbhandari20 sec 8.1]
// Counts are exact: sizes are chosen such that nothing is padded.
#include <gtest/gtest.h>

#include "models/model_formulas.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::Moved;
using testing_support::moved;
using testing_support::per_layer;
using testing_support::recompute_all;
using testing_support::round_model;

constexpr DType kType = DType::kBf16;
constexpr int kDp = 4, kMicroSteps = 3, kTp = 4;

Plan data_plan(int stage) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.zero_stage = stage;
  plan.batch = {.global_batch = kDp * kMicroSteps, .micro_batch = 1, .sequence = 128};
  return plan;
}

Moved of_data(const Job& job) {
  return moved(job, job.classes[0], {job.mesh.named(kDataAxis)}, kType);
}
double sum_of_data(const Job& job) { return of_data(job).sum(); }

// In units of Psi (N - 1) / N.
double psi(const ModelConfig& model, double elements) {
  return elements / (static_cast<double>(parameter_count(model)) * (kDp - 1) / kDp);
}

TEST(DataParallelVolume, IsTwicePsiForStages0And1) {
  for (const int stage : {0, 1}) {
    for (const bool tied : {true, false}) {
      ModelConfig model = round_model();
      model.tied_embeddings = tied;
      EXPECT_DOUBLE_EQ(psi(model, sum_of_data(lower(data_plan(stage), model))), 2) << stage << tied;
    }
  }
}

TEST(DataParallelVolume, OfStage1IsAReduceScatterAndAnAllGather) {
  const Moved volume = of_data(lower(data_plan(1), round_model()));
  EXPECT_DOUBLE_EQ(psi(round_model(), volume.gathered), 1);
  EXPECT_DOUBLE_EQ(psi(round_model(), volume.reduce_scattered), 1);
}

TEST(DataParallelVolume, OfStage2ReducesEveryMicroStep) {
  ModelConfig model = round_model();
  model.tied_embeddings = false;
  const Moved volume = of_data(lower(data_plan(2), model));
  EXPECT_DOUBLE_EQ(psi(model, volume.gathered), 1);
  EXPECT_DOUBLE_EQ(psi(model, volume.reduce_scattered), kMicroSteps);
}

class Stage3Volume : public testing::TestWithParam<Gather> {};

TEST_P(Stage3Volume, OfALayerIs3Psi) {
  Plan plan = data_plan(3);
  plan.gather = GetParam();
  const auto layer = static_cast<double>(layer_parameter_count(round_model())) * (kDp - 1) / kDp;
  const auto gathered = [](const Job& job) { return of_data(job).gathered; };
  EXPECT_DOUBLE_EQ(per_layer(plan, round_model(), gathered), 2 * kMicroSteps * layer);
  EXPECT_DOUBLE_EQ(per_layer(plan, round_model(), sum_of_data), 3 * kMicroSteps * layer);
}

TEST_P(Stage3Volume, OfTheWholeModelIsNoMore) {
  Plan plan = data_plan(3);
  plan.gather = GetParam();
  ModelConfig model = round_model();
  model.tied_embeddings = false;
  // Neither embedding is read in backward: one all-gather and one reduce-scatter of each.
  const auto tables = static_cast<double>((model.vocab + model.sequence) * model.hidden);
  const double saved = tables / static_cast<double>(parameter_count(model)) * kMicroSteps;
  // The head and the last norm turn straight from forward to backward, and stay gathered.
  const auto ends = static_cast<double>(model.vocab * model.hidden + 2 * model.hidden);
  const double kept = ends / static_cast<double>(parameter_count(model)) * kMicroSteps;
  EXPECT_DOUBLE_EQ(psi(model, sum_of_data(lower(plan, model))), 3 * kMicroSteps - saved - kept);
}

INSTANTIATE_TEST_SUITE_P(Units, Stage3Volume, testing::Values(Gather::kLayer, Gather::kOperator));

// Buckets of several layers move the same elements in fewer collectives [Li20 sec 3.2.2].
TEST(UnitsOfSeveralLayers, MoveTheSameInFewerCollectives) {
  const ModelConfig model = round_model();
  const auto layer_collectives = [](const Job& job) {
    std::int64_t count = 0;
    const RankClass& c = job.classes[0];
    for (const Node& node : c.program.nodes)
      if (node.kind == OpKind::kCollective && node.role.part == Part::kLayer)
        count += testing_support::instances(c.program, node);
    return count;
  };
  for (const int stage : {0, 1, 2, 3}) {
    Plan plan = data_plan(stage);
    plan.gather = Gather::kLayer;
    const Job by_layer = lower(plan, model);
    plan.gather = Gather::of_layers(2);
    const Job by_two = lower(plan, model);
    EXPECT_DOUBLE_EQ(sum_of_data(by_two), sum_of_data(by_layer)) << stage;
    EXPECT_GT(layer_collectives(by_layer), 0) << stage;
    EXPECT_EQ(2 * layer_collectives(by_two), layer_collectives(by_layer)) << stage;
  }
}

// Each layer is broadcast forward and backward by its owner and its gradients are reduced to it:
// all Psi of a layer each time, over every link of a ring [Rajbhandari21 sec 6.1].
TEST(OwnersOfLayers, BroadcastEachTwiceAndReduceItsGradientsOnce) {
  const ModelConfig model = round_model();
  Plan plan = data_plan(3);
  plan.gather = Gather::of_layers(kDp);
  const Moved cut = of_data(lower(plan, model));
  plan.gather = Gather::kOwned;
  for (const Recompute mode : {Recompute::kNone, Recompute::kFull}) {
    plan.recompute = recompute_all(mode);
    const Moved owned = of_data(lower(plan, model));
    const auto layers = static_cast<double>(model.layers * layer_parameter_count(model));
    EXPECT_DOUBLE_EQ(owned.broadcast, 2 * kMicroSteps * layers);
    EXPECT_DOUBLE_EQ(owned.reduced, kMicroSteps * layers);
    // What is outside the layers stays cut.
    EXPECT_DOUBLE_EQ(cut.gathered - owned.gathered, owned.broadcast * (kDp - 1) / kDp);
    EXPECT_DOUBLE_EQ(cut.reduce_scattered - owned.reduce_scattered,
                     owned.reduced * (kDp - 1) / kDp);
  }
}

// A replay by layers ends with the whole layer gathered, which backward goes on with: the papers' 3
// Psi. By operators only the last one is still there, so the others are gathered once more.
TEST(Stage3Volume, WithFullRecomputeDependsOnTheGatherUnit) {
  Plan plan = data_plan(3);
  plan.recompute = recompute_all(Recompute::kFull);
  const ModelConfig model = round_model();
  const auto layer = static_cast<double>(layer_parameter_count(model)) * (kDp - 1) / kDp;
  plan.gather = Gather::kLayer;
  EXPECT_DOUBLE_EQ(per_layer(plan, model, sum_of_data), 3 * kMicroSteps * layer);
  plan.gather = Gather::kOperator;
  const auto last = static_cast<double>(model.ffn * model.hidden + model.hidden) * (kDp - 1) / kDp;
  EXPECT_DOUBLE_EQ(per_layer(plan, model, sum_of_data), kMicroSteps * (4 * layer - last));
}

// Hybrid sharding over S of N ranks [Zhao23 sec 3.2.2]: gathers and reduce-scatters stay among S,
// and the N / S copies of a shard are summed, 2 (Psi / S) (N / S - 1) / (N / S) per micro-step.
TEST(HybridShardingVolume, KeepsGathersWithinTheGroup) {
  constexpr int kShards = 2, kReplicas = kDp / kShards;
  Plan plan = data_plan(3);
  plan.parallel.shards = kShards;
  const auto in = [&](std::string_view axes) {
    return per_layer(plan, round_model(), [&](const Job& job) {
      return moved(job, job.classes[0], {job.mesh.named(axes)}, kType).sum();
    });
  };
  const auto layer = static_cast<double>(layer_parameter_count(round_model())) * kMicroSteps;
  EXPECT_DOUBLE_EQ(in("dp.0"), 3 * layer * (kShards - 1) / kShards);
  EXPECT_DOUBLE_EQ(in("dp.1"), 2 * layer / kShards * (kReplicas - 1) / kReplicas);
  EXPECT_EQ(in("dp"), 0);
}

Plan tensor_plan(Recompute recompute) {
  Plan plan = data_plan(0);
  plan.parallel = {.dp = 1, .tp = kTp};
  plan.batch = {.global_batch = 2 * kMicroSteps, .micro_batch = 2, .sequence = 128};
  plan.recompute = recompute_all(recompute);
  return plan;
}

// In passes of b s h (t - 1) / t over the ring, per layer and micro-step; an all-reduce is two.
template <typename Which>
double tensor_passes(const Plan& plan, const Which& which) {
  const ModelConfig model = round_model();
  const auto pass =
      static_cast<double>(plan.batch.micro_batch * plan.batch.sequence * model.hidden) * (kTp - 1) /
      kTp;
  return per_layer(plan, model,
                   [&](const Job& job) {
                     return which(moved(job, job.classes[0], {job.mesh.named(kTensorAxis)}, kType));
                   }) /
         pass / kMicroSteps;
}
double all_reduces(const Plan& plan) {
  return tensor_passes(plan, [](const Moved& m) { return m.all_reduced; }) / 2;
}
double gathers(const Plan& plan) {
  return tensor_passes(plan, [](const Moved& m) { return m.gathered; });
}
double scatters(const Plan& plan) {
  return tensor_passes(plan, [](const Moved& m) { return m.reduce_scattered; });
}

TEST(TensorParallelVolume, IsFourAllReducesPerLayer) {
  const Plan plan = tensor_plan(Recompute::kNone);
  EXPECT_DOUBLE_EQ(all_reduces(plan), 4);
  EXPECT_EQ(gathers(plan) + scatters(plan), 0);
}

TEST(TensorParallelVolume, IsSixAllReducesWithFullRecompute) {
  const Plan plan = tensor_plan(Recompute::kFull);
  EXPECT_DOUBLE_EQ(all_reduces(plan), 6);
  EXPECT_EQ(gathers(plan) + scatters(plan), 0);
}

TEST(TensorParallelVolume, OfSequenceParallelIsTheSameInTwoHalves) {
  Plan plan = tensor_plan(Recompute::kNone);
  plan.parallel.sequence_parallel = true;
  // Two norms and two biases, of 6 h parameters.
  const auto once = 6.0 / static_cast<double>(plan.batch.micro_batch * plan.batch.sequence);
  EXPECT_DOUBLE_EQ(all_reduces(plan), once / kMicroSteps);
  EXPECT_DOUBLE_EQ(scatters(plan), 4);
  EXPECT_DOUBLE_EQ(gathers(plan), 4 + 2);
}

TEST(TensorParallelVolume, OfPartitionedCheckpointsIsOneGatherMore) {
  Plan plan = tensor_plan(Recompute::kFull);
  plan.partition_activations = true;
  EXPECT_DOUBLE_EQ(all_reduces(plan), 6);
  EXPECT_DOUBLE_EQ(gathers(plan), 1);  // 1 of 12 passes: "less than 10 %"
  EXPECT_EQ(scatters(plan), 0);
}

}  // namespace
}  // namespace zplan
