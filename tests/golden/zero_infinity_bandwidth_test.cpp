// Section 4 of ZeRO-Infinity [Rajbhandari21]: intensities, the thresholds that its text reads off
// Fig. 3, its Table 3, and Fig. 2a by the closed forms; and what of section 4 our own schedule does
// otherwise, counted from lowered Jobs. Sequence 1024, peak 70 TFLOP/s, ci = 1. Tolerances: printed
// digits; where the text says "over 50 %" or names a bandwidth for 90 %, what it says holds.
#include <gtest/gtest.h>

#include <cmath>

#include "models/model_formulas.h"
#include "models/zero_infinity.h"
#include "planner/cost/op_rooflines.h"
#include "planner/cost/tier_traffic.h"
#include "planner/place/place.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::copied;
using testing_support::recompute_all;
using testing_support::round_model;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kTiB = 1024 * kGiB;

double efficiency_of(double intensity, double bandwidth) {
  return infinity_efficiency(intensity, {bandwidth}, kInfinityPeak);
}

InfinityIntensities at(double sequences, double hidden = 8192) {
  return printed_intensities(hidden, {sequences, kInfinitySequence, 1});
}

TEST(InfinityIntensity, OfAStateIsThePapersForm) {
  const InfinityIntensities two = printed_intensities(8192, {2, 1024, 3});
  EXPECT_DOUBLE_EQ(two.parameters, 1024 * 2);
  EXPECT_DOUBLE_EQ(two.optimizer, 1024 * 2 / 4.0);
  EXPECT_DOUBLE_EQ(two.checkpoints, 24 * 8192 * 3);
}

TEST(InfinityThreshold, ParametersAtSeventyGigabytesPerSecond) {
  EXPECT_NEAR(efficiency_of(at(1).parameters, 70e9), 0.506, 5e-4);
  EXPECT_NEAR(bandwidth_for(0.5, at(1).parameters, kInfinityPeak).value, 70e9, 2e9);
}

TEST(InfinityThreshold, OptimizerStatesNeedFourTimesThatAndOneAndAHalfTerabytesForNinety) {
  const BytesPerSecond half = bandwidth_for(0.5, at(1).parameters, kInfinityPeak);
  EXPECT_DOUBLE_EQ(bandwidth_for(0.5, at(1).optimizer, kInfinityPeak).value, 4 * half.value);
  EXPECT_NEAR(efficiency_of(at(2).optimizer, 1.5e12), 0.916, 5e-4);
  EXPECT_LT(bandwidth_for(0.9, at(2).optimizer, kInfinityPeak).value, 1.5e12);
}

TEST(InfinityThreshold, CheckpointsAtOneToFourGigabytesPerSecond) {
  EXPECT_NEAR(efficiency_of(at(1, 2048).checkpoints, 2e9), 0.584, 5e-4);
  EXPECT_NEAR(efficiency_of(at(1, 8192).checkpoints, 1e9), 0.737, 5e-4);
  EXPECT_NEAR(efficiency_of(at(1, 8192).checkpoints, 3e9), 0.894, 5e-4);
}

TEST(InfinityThreshold, IsWhereTheEfficiencyIsReached) {
  for (const double efficiency : {0.1, 0.5, 0.9}) {
    const BytesPerSecond bandwidth = bandwidth_for(efficiency, 512, kInfinityPeak);
    EXPECT_NEAR(efficiency_of(512, bandwidth.value), efficiency, 1e-12);
  }
}

// All devices keep the efficiencies of the V100 at the bandwidths printed for them.
TEST(InfinityTable3, DevicesWithMoreComputeNeedAsMuchMoreBandwidth) {
  for (const InfinityDevice& device : kInfinityTable3) {
    const double slow = device.aggregate.value;
    EXPECT_NEAR(infinity_efficiency(at(1).parameters, device.gpu_to_gpu, device.peak), 0.506, 5e-4);
    EXPECT_NEAR(infinity_efficiency(at(2).optimizer, {slow}, device.peak), 0.916, 5e-4);
    const double scale = device.peak.value / kInfinityPeak.value;
    const double printed = std::round(slow / kInfinityDevices / 1e9 / scale);
    EXPECT_DOUBLE_EQ(printed * 1e9 * scale, device.slow_memory.value) << device.name;
  }
}

struct Row {
  std::int64_t layers, hidden, heads;
  double trillions, states, activations, checkpoints, mswm, awm;
};
constexpr Row kFig2a[] = {{80, 10240, 128, 0.10, 1.83, 2.03, 0.05, 1.56 /* printed: 1.95 */, 1.63},
                          {100, 20480, 160, 0.50, 9.16, 3.91, 0.12, 6.25, 2.50},
                          {128, 25600, 256, 1.01, 18.31, 7.13, 0.20, 9.77, 3.56},
                          {195, 65536, 512, 10.05, 182.81, 24.38, 0.76, 64.00, 8.00},
                          {315, 163840, 1024, 101.47, 1845.70, 88.59, 3.08, 400.00, 18.00}};

ModelConfig model_of(const Row& row) {
  ModelConfig model = round_model();
  model.layers = row.layers;
  model.hidden = row.hidden;
  model.heads = model.kv_heads = row.heads;
  model.ffn = 4 * row.hidden;
  return model;
}

// The figure rounds halves up (1.625 is printed 1.63).
double as_printed(double value) { return std::floor(value * 100 + 0.5 + 1e-6) / 100; }

TEST(InfinityFig2a, IsReproducedByTheClosedForms) {
  for (const Row& row : kFig2a) {
    const InfinityMemory node = printed_memory(model_of(row), {32, 1024, 1});
    const InfinityMemory gpu = printed_memory(model_of(row), {2, 1024, 1});
    EXPECT_DOUBLE_EQ(as_printed(node.parameters / 1e12), row.trillions);
    EXPECT_DOUBLE_EQ(as_printed(node.states_20 / kTiB), row.states);
    EXPECT_DOUBLE_EQ(node.states_16 * 20, node.states_20 * 16);
    EXPECT_DOUBLE_EQ(as_printed(node.activations / kTiB), row.activations);
    EXPECT_DOUBLE_EQ(as_printed(node.checkpoints / kTiB), row.checkpoints);
    EXPECT_DOUBLE_EQ(as_printed(gpu.working_states / kGiB), row.mswm);
    EXPECT_DOUBLE_EQ(as_printed(gpu.working_activations / kGiB), row.awm);
  }
}

TEST(OwnLayers, OfThePapersShapeGiveThePapersForms) {
  const ModelConfig model = model_of(kFig2a[0]);
  const InfinityBatch batch{2, 1024, 4};
  const InfinityIntensities own = layer_intensities(model, batch);
  const InfinityIntensities printed = printed_intensities(10240, batch);
  EXPECT_DOUBLE_EQ(own.parameters, printed.parameters);
  EXPECT_DOUBLE_EQ(own.optimizer, printed.optimizer);
  EXPECT_DOUBLE_EQ(own.checkpoints, printed.checkpoints);
  const InfinityMemory held = layer_memory(model, batch, true);
  const InfinityMemory form = printed_memory(model, batch);
  EXPECT_DOUBLE_EQ(held.activations, form.activations);
  EXPECT_DOUBLE_EQ(held.checkpoints, form.checkpoints);
  EXPECT_DOUBLE_EQ(held.working_states, form.working_states);
  EXPECT_DOUBLE_EQ(held.working_activations, form.working_activations);
  EXPECT_LT(layer_memory(model, batch, false).activations, form.activations);
}

// By hand: qkv 8192 x 10240, projection 8192 x 8192, gate, up and down 3 x 8192 x 28672.
TEST(OwnLayers, OfLlama3AreItsGatedMlpAndSharedKeys) {
  const ModelConfig model = load_model("llama3-70b");
  const InfinityBatch batch{1, 8192, 1};
  const InfinityIntensities own = layer_intensities(model, batch);
  EXPECT_DOUBLE_EQ(own.parameters, 8192);
  EXPECT_DOUBLE_EQ(own.checkpoints, 2.0 * (10240 + 8192 + 3 * 28672));
  const InfinityMemory held = layer_memory(model, batch, false);
  EXPECT_DOUBLE_EQ(held.working_states, 4.0 * 8192 * 2 * 28672);
  EXPECT_DOUBLE_EQ(held.working_activations, 2.0 * 8192 * (4 * 8192 + 10240 + 8192 + 3 * 28672));
}

// By hand: qkv 4096 x 6144, projection 4096 x 4096, router 4096 x 8, experts 3 x 4096 x 14336 each,
// of eight a token goes through two.
TEST(OwnLayers, OfMixtralComputeWithTwoOfEightExperts) {
  const ModelConfig model = load_model("mixtral-8x7b");
  const double rest = 4096.0 * (6144 + 4096 + 8), expert = 3.0 * 4096 * 14336;
  const InfinityIntensities own = layer_intensities(model, {1, 4096, 1});
  EXPECT_DOUBLE_EQ(own.parameters, 4096 * (rest + 2 * expert) / (rest + 8 * expert));
  EXPECT_DOUBLE_EQ(own.checkpoints, 2 * (rest + 2 * expert) / 4096);
  EXPECT_DOUBLE_EQ(layer_memory(model, {1, 4096, 1}, false).working_states,
                   4.0 * 8 * 4096 * 2 * 14336);
}

constexpr int kDp = 4, kMicroSteps = 3;

Plan plan_of(Recompute recompute, Tier states, Gather gather) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.zero_stage = 3;
  plan.recompute = recompute_all(recompute);
  plan.placement = {states, states, states, Tier::kGpu};
  plan.gather = gather;
  plan.batch = {.global_batch = kDp * kMicroSteps, .micro_batch = 1, .sequence = 128};
  return plan;
}

const TierTraffic* find(const std::vector<TierTraffic>& all, MovedState state, Hop hop) {
  for (const TierTraffic& one : all)
    if (one.state == state && one.hop == hop) return &one;
  return nullptr;
}

// The paper counts three loads of the parameters and one store of gradients [Rajbhandari21 sec
// 4.1]. Backward goes on with what the replay has loaded.
TEST(OwnSchedule, LoadsParametersTwiceWhereThePaperCountsThree) {
  for (const Tier tier : {Tier::kCpu, Tier::kNvme}) {
    const Job layers = lower(plan_of(Recompute::kFull, tier, Gather::kLayer), round_model());
    EXPECT_DOUBLE_EQ(parameter_loads(layers, 0), 2);
    EXPECT_DOUBLE_EQ(gradient_stores(layers, 0), 1);
    const Job none = lower(plan_of(Recompute::kNone, tier, Gather::kLayer), round_model());
    EXPECT_DOUBLE_EQ(parameter_loads(none, 0), 2);
    const Job operators = lower(plan_of(Recompute::kFull, tier, Gather::kOperator), round_model());
    EXPECT_GT(parameter_loads(operators, 0), 2.5);
    EXPECT_LT(parameter_loads(operators, 0), 3);
  }
}

// What is outside the layers, an encoder's positions and norm too, is loaded once more or less.
TEST(OwnSchedule, LoadsOfAnEncoderAndADecoderAreThoseOfTheirLayers) {
  ModelConfig model = round_model();
  model.encoder_layers = 1;
  for (const Tier tier : {Tier::kGpu, Tier::kCpu}) {
    const Job job = lower(plan_of(Recompute::kFull, tier, Gather::kLayer), model);
    EXPECT_DOUBLE_EQ(parameter_loads(job, 0), 2) << name(tier);
  }
}

// Each rank owns a quarter of the layers, and one link works at a time [Rajbhandari21 sec 6.1].
TEST(OwnSchedule, OfOwnersLoadsAsMuchOverAQuarterOfTheRate) {
  const Cluster cluster = load_cluster("dgx-a100");
  const auto loaded = [&](Gather gather) {
    const Job job = lower(plan_of(Recompute::kFull, Tier::kCpu, gather), round_model());
    EXPECT_DOUBLE_EQ(parameter_loads(job, 0), 2);
    return *find(tier_traffic(CostModel(job, cluster)), MovedState::kParameters, Hop::kGpuCpu);
  };
  const TierTraffic cut = loaded(Gather::kLayer), owned = loaded(Gather::kOwned);
  EXPECT_NEAR(owned.nearer, cut.nearer, 0.05 * cut.nearer);
  EXPECT_LT(owned.rate().value, 0.6 * cut.rate().value);
}

TEST(OwnSchedule, GathersParametersOnGpusAsOftenAndLoadsNoneThatAreWhole) {
  Plan plan = plan_of(Recompute::kFull, Tier::kGpu, Gather::kLayer);
  EXPECT_DOUBLE_EQ(parameter_loads(lower(plan, round_model()), 0), 2);
  plan.zero_stage = 1;
  EXPECT_DOUBLE_EQ(parameter_loads(lower(plan, round_model()), 0), 0);
}

// 32 bytes per parameter for the optimizer: 16 read and 16 written, of states with gradients in
// fp32; besides them gradients that the update reads and parameters that it writes, in 16 bits.
TEST(OwnSchedule, MovesOptimizerStatesAsThePaperCounts) {
  Plan plan = plan_of(Recompute::kFull, Tier::kNvme, Gather::kLayer);
  plan.precision = *find_recipe("main-gradients", plan.kernel_set);
  plan.clip = false;
  const Job job = lower(plan, round_model());
  const Cluster cluster = load_cluster("dgx2");
  Cluster with_bf16 = cluster;
  with_bf16.node.device.peaks["bf16"] = cluster.node.device.peak("fp16");
  const CostModel model(job, with_bf16);
  const std::vector<TierTraffic> traffic = tier_traffic(model);
  const TierTraffic* optimizer = find(traffic, MovedState::kOptimizer, Hop::kCpuNvme);
  ASSERT_NE(optimizer, nullptr);
  const RankClass& own = job.classes[0];
  const double fp32 = 4 * (copied(own, Tier::kNvme, Tier::kCpu, DType::kF32) +
                           copied(own, Tier::kCpu, Tier::kNvme, DType::kF32));
  const auto share = static_cast<double>(parameter_count(round_model())) / kDp;
  EXPECT_DOUBLE_EQ(fp32, 32 * share);
  EXPECT_NEAR(optimizer->bytes(), fp32 + 4 * share, 1e-9 * fp32);
  EXPECT_GT(optimizer->flops, 0);
  EXPECT_EQ(optimizer->ranks_in_node, kDp);
  EXPECT_TRUE(optimizer->link.kind.starts_with("NVMe")) << optimizer->link.kind;
}

// What all states move is what the Job copies: nothing is lost or counted twice.
TEST(OwnSchedule, CountsEveryCopyOfParametersGradientsAndCheckpointsOnce) {
  Plan plan = plan_of(Recompute::kFull, Tier::kCpu, Gather::kOperator);
  plan.placement.activations = Tier::kCpu;
  const Job job = lower(plan, round_model());
  const CostModel model(job, load_cluster("dgx-a100"));
  double bytes = 0;
  for (const TierTraffic& one : tier_traffic(model))
    if (one.hop == Hop::kGpuCpu) bytes += one.bytes();
  const RankClass& own = job.classes[0];
  double copies = 0;
  for (const DType dtype : {DType::kBf16, DType::kF32})
    copies +=
        static_cast<double>(size_of(dtype).value) *
        (copied(own, Tier::kGpu, Tier::kCpu, dtype) + copied(own, Tier::kCpu, Tier::kGpu, dtype));
  EXPECT_NEAR(bytes, copies, 1e-6 * copies);
}

TEST(OpRoofline, IsOfTheProductsOfTheStep) {
  const Job job = lower(plan_of(Recompute::kNone, Tier::kGpu, Gather::kLayer), round_model());
  const CostModel model(job, load_cluster("dgx-a100"));
  const auto tokens = static_cast<double>(kMicroSteps * 128);
  bool found = false;
  for (const OpRoofline& line : op_rooflines(model, 0)) {
    EXPECT_GE(line.time, line.at_memory * 0.5) << name(line.part);
    if (line.part != Part::kFc1 || line.kind != WorkKind::kGemm) continue;
    found = true;
    EXPECT_DOUBLE_EQ(line.flops, 6 * tokens * 4 * 512 * 2048);
    EXPECT_NE(line.limit(), RoofLimit::kProducts);  // 128 tokens are few
    EXPECT_NEAR(line.at_peak.value, line.flops / 312e12, 1e-3 * line.at_peak.value);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace zplan
