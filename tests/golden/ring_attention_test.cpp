// Ring attention [Liu23] and its union with DeepSpeed-Ulysses [Fang24], counted in lowered Jobs. N
// tokens of a sequence, h hidden, c context parallel ranks of which R form rings, a heads of
// queries, g of keys:
//   volume   forward each rank sends its keys and values R - 1 times, 2 N h / c g / a elements each
//            time; backward as often, and with them their gradients. The ranks that exchange heads
//            have c / R times the tokens with R / c of the heads: as many elements.
//            The others exchange 4 N h / c of their tokens as in [Jacobs23 sec 3.2], R / c of which
//            stays.
//   balance  each rank has as much attention to do, in each step as much as in any other
//   memory   activations of N / c tokens
// Counts are exact: sizes are chosen such that nothing is padded.
#include <gtest/gtest.h>

#include "planner/lower/context_axis.h"
#include "planner/program/kernels/kernel_table.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::instances;
using testing_support::moved;
using testing_support::per_layer;
using testing_support::recompute_all;
using testing_support::round_model;

constexpr DType kType = DType::kBf16;
constexpr int kMicroSteps = 3;

Plan plan_of(int cp, int ring) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.cp = cp;
  plan.parallel.ring = ring;
  plan.batch = {.global_batch = kMicroSteps, .micro_batch = 1, .sequence = 128};
  return plan;
}

// In units of N h / c, of a layer and micro-step.
double in_units(const Plan& plan, const ModelConfig& model, double elements) {
  const auto tokens = static_cast<double>(plan.batch.sequence * model.hidden) / plan.parallel.cp;
  return elements / (tokens * kMicroSteps);
}
double shifted(const Plan& plan, const ModelConfig& model) {
  return in_units(plan, model, per_layer(plan, model, [](const Job& job) {
                    return moved(job, job.classes[0], {job.mesh.named(kRingAxis)}, kType).shifted;
                  }));
}
double exchanged(const Plan& plan, const ModelConfig& model) {
  return in_units(plan, model, per_layer(plan, model, [&](const Job& job) {
                    const Group group{job.mesh.named(exchange_axis(plan))};
                    return moved(job, job.classes[0], group, kType).exchanged;
                  }));
}

TEST(RingAttention, KeysAndValuesGoRoundOnceForwardAndWithTheirGradientsBackward) {
  for (const int ring : {2, 4, 8}) {
    Plan plan = plan_of(ring, ring);
    EXPECT_DOUBLE_EQ(shifted(plan, round_model()), (2 + 4) * (ring - 1)) << ring;
    EXPECT_DOUBLE_EQ(exchanged(plan, round_model()), 0) << ring;
    plan.recompute = recompute_all(Recompute::kFull);
    EXPECT_DOUBLE_EQ(shifted(plan, round_model()), (2 + 2 + 4) * (ring - 1)) << ring;
  }
}

TEST(RingAttention, FewerKeyValueHeadsSendLess) {
  ModelConfig model = round_model();
  model.kv_heads = 2;  // of 8
  EXPECT_DOUBLE_EQ(shifted(plan_of(4, 4), model), 6 * 3 * 2 / 8.0);
}

TEST(RingAttention, RanksThatExchangeHeadsShareTheKeysOfTheirRing) {
  const Plan plan = plan_of(8, 4);
  EXPECT_DOUBLE_EQ(shifted(plan, round_model()), 6 * 3);
  EXPECT_DOUBLE_EQ(exchanged(plan, round_model()), 2 * 4 * (1 - 1 / 2.0));
}

// Attention of a layer, forward and backward, over that of one rank with whole sequences.
TEST(RingAttention, EachRankHasItsShareOfAttention) {
  const auto attention = [](const Plan& plan) {
    return per_layer(plan, round_model(), [](const Job& job) {
      const Program& p = job.classes[0].program;
      double flop = 0;
      for (const Node& node : p.nodes) {
        if (node.kind != OpKind::kKernel) continue;
        const Demand demand = demand_of(p, node);
        if (demand.kind != WorkKind::kAttention) continue;
        flop += static_cast<double>(demand.flops.value * instances(p, node));
      }
      return flop;
    });
  };
  const double alone = attention(plan_of(1, 1));
  for (const auto& [cp, ring] : {std::pair{2, 2}, {4, 4}, {8, 8}, {8, 2}})
    EXPECT_DOUBLE_EQ(attention(plan_of(cp, ring)), alone / cp) << cp << " " << ring;
}

}  // namespace
}  // namespace zplan
