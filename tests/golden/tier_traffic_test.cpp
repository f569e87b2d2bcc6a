// Elements that a rank copies between the tiers per step, counted from lowered Jobs, against the
// papers. P parameters over N ranks, m micro-steps.
//   ZeRO-Offload        2 P bytes of gradients to the host, 2 P of parameters back, whatever N
//                       [Ren21 sec 4.1]
//   optimizer states    2 x 16 P bytes: read and written, of 16 bytes per parameter (master,
//   moments
//                       and gradient in fp32) [Rajbhandari21 sec 4.1]
//   parameters and      2 x 4 P bytes per micro-step with full recompute: three loads, of forward,
//   gradients           replay and backward, and one store of gradients [Rajbhandari21 sec 4.1].
//                       Here backward goes on with what the replay has last loaded: the whole layer
//                       or, gathering by operators, the last one. Those are not loaded again.
//   owners of layers    one link carries a whole layer where all carry their part: so many times
//   the
//                       seconds as there are links [Rajbhandari21 sec 6.1]
//   checkpoints         2 x 2 b s h bytes per layer and micro-step [Rajbhandari21 sec 4.1]; cut
//   over
//                       t tensor parallel ranks 1/t of it [Rajbhandari20 sec 6.1]
// Counts are exact: sizes are chosen such that nothing is padded.
#include <gtest/gtest.h>

#include "models/model_formulas.h"
#include "sim/simulate.h"
#include "tests/golden/job_counts.h"
#include "tests/unit/cost/small_machine.h"

namespace zplan {
namespace {

using testing_support::copied;
using testing_support::per_layer;
using testing_support::recompute_all;
using testing_support::round_model;

constexpr int kDp = 4, kMicroSteps = 3;

Plan plan_of(int stage, Recompute recompute) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.zero_stage = stage;
  plan.recompute = recompute_all(recompute);
  plan.batch = {.global_batch = kDp * kMicroSteps, .micro_batch = 1, .sequence = 128};
  return plan;
}

double layer_copies(const Plan& plan, Tier from, Tier to, DType dtype) {
  return per_layer(plan, round_model(),
                   [&](const Job& job) { return copied(job.classes[0], from, to, dtype); });
}

TEST(OffloadTraffic, OfStage2IsEachParameterDownAndUpOnceOverAllRanks) {
  for (const int dp : {1, 2, 4}) {
    Plan plan = plan_of(2, Recompute::kNone);
    plan.parallel.dp = dp;
    plan.batch.global_batch = dp;
    plan.placement.grads = plan.placement.optimizer = Tier::kCpu;
    const Job job = lower(plan, round_model());
    const auto share = static_cast<double>(parameter_count(round_model())) / dp;
    EXPECT_DOUBLE_EQ(copied(job.classes[0], Tier::kGpu, Tier::kCpu, DType::kBf16), share) << dp;
    EXPECT_DOUBLE_EQ(copied(job.classes[0], Tier::kCpu, Tier::kGpu, DType::kBf16), share) << dp;
  }
}

TEST(NvmeTraffic, OfOptimizerStatesIsSixteenBytesReadAndWritten) {
  Plan plan = plan_of(3, Recompute::kFull);
  plan.precision = *find_recipe("main-gradients", plan.kernel_set);
  plan.placement = {Tier::kNvme, Tier::kNvme, Tier::kNvme, Tier::kGpu};
  const auto share = static_cast<double>(layer_parameter_count(round_model())) / kDp;
  EXPECT_DOUBLE_EQ(4 * layer_copies(plan, Tier::kNvme, Tier::kCpu, DType::kF32), 16 * share);
  EXPECT_DOUBLE_EQ(4 * layer_copies(plan, Tier::kCpu, Tier::kNvme, DType::kF32), 16 * share);
  plan.placement.optimizer = Tier::kCpu;
  EXPECT_EQ(layer_copies(plan, Tier::kNvme, Tier::kCpu, DType::kF32), 0);
  EXPECT_EQ(layer_copies(plan, Tier::kCpu, Tier::kNvme, DType::kF32), 0);
}

// What Fuyou may swap, in widths of h: attention 1, queries, keys and values 3, FFN-mid 4
// [Liao24 sec 4.3]; and what it does not name.
TEST(ActivationTraffic, IsWhatTheOperatorsGiveDownAndUpOncePerMicroStep) {
  using enum LayerOperator;
  const ModelConfig model = round_model();
  const std::pair<OperatorSet, int> widths[] = {{{kAttention}, 1},
                                                {{kQkv}, 3},
                                                {{kFc1}, 4},
                                                {{kActivation}, 4},
                                                {{kNorm}, 2},
                                                {{kProjection}, 1},
                                                {{kAttention, kQkv, kFc1}, 8}};
  for (const auto& [operators, width] : widths) {
    Plan plan = plan_of(1, Recompute::kOperators);
    const auto expected = static_cast<double>(kMicroSteps * 128 * model.hidden * width);
    plan.recompute = {{Recompute::kOperators, 0, {}, operators}};
    EXPECT_EQ(layer_copies(plan, Tier::kGpu, Tier::kCpu, DType::kBf16), expected);
    EXPECT_EQ(layer_copies(plan, Tier::kCpu, Tier::kGpu, DType::kBf16), expected);
    plan.recompute = {{Recompute::kOperators, 0, {}, {}, operators}};
    EXPECT_EQ(layer_copies(plan, Tier::kCpu, Tier::kNvme, DType::kBf16), expected);
    EXPECT_EQ(layer_copies(plan, Tier::kNvme, Tier::kCpu, DType::kBf16), expected);
  }
}

TEST(SlowTierTraffic, OfParametersAndGradientsIsThreeLoadsAndAStore) {
  const ModelConfig model = round_model();
  const auto share = static_cast<double>(layer_parameter_count(model)) / kDp * kMicroSteps;
  const auto last =
      static_cast<double>(model.ffn * model.hidden + model.hidden) / kDp * kMicroSteps;
  for (const Tier tier : {Tier::kCpu, Tier::kNvme}) {
    Plan plan = plan_of(3, Recompute::kFull);
    plan.placement = {tier, tier, tier, Tier::kGpu};
    plan.gather = Gather::kOperator;
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kCpu, Tier::kGpu, DType::kBf16), 3 * share - last);
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kGpu, Tier::kCpu, DType::kBf16), share);
    plan.gather = Gather::kLayer;
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kCpu, Tier::kGpu, DType::kBf16), 2 * share);
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kGpu, Tier::kCpu, DType::kBf16), share);
  }
}

// Four GPUs on two links of 10 GB/s to the host, which hold up the step. The copies of a step are
// two loads of each layer and, outside the layers, one or two of the rest, which stays cut.
TEST(OwnersOfLayers, LoadThroughOneLinkAtATime) {
  constexpr double kRate = 10e9;
  constexpr int kLinks = 2;
  const ModelConfig model = round_model();
  Plan plan = plan_of(3, Recompute::kFull);
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.placement.params = Tier::kCpu;
  plan.gather = Gather::kLayer;
  plan.batch.sequence = 16;
  const sim::SimResult cut = sim::simulate(lower(plan, model), small_machine());
  plan.gather = Gather::kOwned;
  const sim::SimResult owned = sim::simulate(lower(plan, model), small_machine());
  const auto uploads = [](const sim::SimResult& result) {
    for (const sim::LaneReport& lane : result.lanes)
      if (lane.lane == Lane::kH2d) return lane.busy.value;
    return 0.0;
  };
  const auto elements = static_cast<double>(model.layers * layer_parameter_count(model));
  const double one_link = 4 * elements * 2 * kMicroSteps / kRate;
  const double longer = one_link - one_link / kLinks;
  EXPECT_NEAR(uploads(owned) - uploads(cut), longer, 1e-3 * longer);
  EXPECT_NEAR(owned.period.value - cut.period.value, longer, 0.2 * longer);
}

TEST(CheckpointTraffic, IsOneStoreAndOneLoadPerLayer) {
  for (const int tp : {1, 4}) {
    Plan plan = plan_of(0, Recompute::kFull);
    plan.parallel.tp = tp;
    plan.partition_activations = tp > 1;
    const auto checkpoint =
        static_cast<double>(plan.batch.micro_batch * plan.batch.sequence * round_model().hidden) *
        kMicroSteps / tp;
    plan.placement.activations = Tier::kCpu;
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kGpu, Tier::kCpu, DType::kBf16), checkpoint) << tp;
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kCpu, Tier::kGpu, DType::kBf16), checkpoint) << tp;
    plan.placement.activations = Tier::kNvme;
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kCpu, Tier::kNvme, DType::kBf16), checkpoint) << tp;
    EXPECT_DOUBLE_EQ(layer_copies(plan, Tier::kNvme, Tier::kCpu, DType::kBf16), checkpoint) << tp;
  }
}

}  // namespace
}  // namespace zplan
