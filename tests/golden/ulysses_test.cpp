// DeepSpeed-Ulysses [Jacobs23], counted in lowered Jobs. N tokens of a sequence, h hidden, P
// context parallel ranks, a heads of queries, g of keys:
//   volume   per layer one all-to-all of an aggregate of 3 N h for queries, keys and values and one
//            of N h for what attention gives, 4 N h / P for each link [Jacobs23 sec 3.2]; backward
//            the same. Exactly, a rank keeps 1 / P of what it has: (P - 1) / P of that leaves it.
//            With fewer heads of keys and values (2 + 2 g / a) N h.
//   memory   activations of N / P tokens
//   states   the ranks are replicas to ZeRO, which cuts over dp x P of them [Jacobs23 sec 3.3]
// Counts are exact: sizes are chosen such that nothing is padded.
#include <gtest/gtest.h>

#include <map>

#include "models/model_formulas.h"
#include "planner/lower/context_axis.h"
#include "planner/lower/ranks.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::Moved;
using testing_support::moved;
using testing_support::per_layer;
using testing_support::recompute_all;
using testing_support::round_model;

constexpr DType kType = DType::kBf16;
constexpr int kMicroSteps = 3;

Plan plan_of(int cp, int dp = 1) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.cp = cp;
  plan.parallel.dp = dp;
  plan.batch = {.global_batch = std::int64_t{kMicroSteps} * dp, .micro_batch = 1, .sequence = 128};
  return plan;
}

// In units of N h / P, of a layer and micro-step.
double exchanged(const Plan& plan, const ModelConfig& model) {
  const double elements = per_layer(plan, model, [](const Job& job) {
    return moved(job, job.classes[0], {job.mesh.named(kContextAxis)}, kType).exchanged;
  });
  const auto tokens = static_cast<double>(plan.batch.sequence * model.hidden) / plan.parallel.cp;
  return elements / (tokens * kMicroSteps);
}

TEST(Ulysses, EachLayerExchangesFourTimesItsTokensForwardAndBackward) {
  for (const int cp : {2, 4, 8})
    for (const char* kernels : {"cuda.sm80.bf16", "cuda.sm80.bf16.unfused"}) {
      Plan plan = plan_of(cp);
      plan.kernel_set = kernels;
      const double leaves = (cp - 1.0) / cp;
      EXPECT_DOUBLE_EQ(exchanged(plan, round_model()), 2 * 4 * leaves) << cp << kernels;
      plan.recompute = recompute_all(Recompute::kFull);
      EXPECT_DOUBLE_EQ(exchanged(plan, round_model()), 3 * 4 * leaves) << cp << kernels;
    }
}

// [Jacobs23 Table 1] that is O(N / P): with P times the tokens on P times the ranks it stays.
TEST(Ulysses, TheVolumeOfARankStaysWhenRanksGrowWithTheTokens) {
  const auto per_rank = [](int cp) {
    ModelConfig model = round_model();
    Plan plan = plan_of(cp);
    plan.batch.sequence = model.sequence = std::int64_t{128} * cp;
    return exchanged(plan, model) * static_cast<double>(128 * model.hidden);
  };
  EXPECT_DOUBLE_EQ(per_rank(8) / (7.0 / 8), per_rank(2) / (1.0 / 2));
}

TEST(Ulysses, FewerKeyValueHeadsExchangeLess) {
  ModelConfig model = round_model();
  model.kv_heads = 2;  // of 8
  EXPECT_DOUBLE_EQ(exchanged(plan_of(2), model), 2 * (2 + 2 * 2 / 8.0) / 2);
}

// Tensor parallel ranks exchange their own heads.
TEST(Ulysses, TensorParallelRanksShareTheVolume) {
  Plan plan = plan_of(4);
  plan.parallel.tp = 2;
  EXPECT_DOUBLE_EQ(exchanged(plan, round_model()), 2 * 4 * 0.75 / 2);
}

// What a layer keeps for backward is what a rank with its tokens alone keeps, and what attention
// gives a second time: by heads for its own backward and by tokens for that of the projection.
TEST(Ulysses, ALayerKeepsTheActivationsOfTheRanksTokens) {
  constexpr int kCp = 4;
  const ModelConfig model = round_model();
  const auto kept = [](const Job& job) {
    std::map<std::string, std::int64_t> bytes;
    for (const Buffer& buffer : job.classes[0].program.buffers)
      if (buffer.category == Category::kActivations && buffer.slots == 4)  // one for each layer
        bytes[buffer.name] = buffer.slot_size.value;
    return bytes;
  };
  Plan alone = plan_of(1);
  alone.batch.sequence /= kCp;
  auto expected = kept(lower(alone, model));
  EXPECT_FALSE(expected.contains("attention.tokens"));
  expected["attention.tokens"] = expected.at("attention");
  EXPECT_EQ(kept(lower(plan_of(kCp), model)), expected);
}

// As dp x P replicas move and keep them (communication_volume_test.cpp).
TEST(Ulysses, StatesAreCutOverAllRanksThatSeeOtherTokens) {
  ModelConfig model = round_model();
  model.tied_embeddings = false;
  constexpr int kRanks = 4;
  for (const int stage : {0, 1, 2, 3}) {
    Plan plan = plan_of(2, 2), data = plan_of(1, kRanks);
    plan.zero_stage = data.zero_stage = stage;
    const Job job = lower(plan, model), expected = lower(data, model);
    const Moved own = moved(job, job.classes[0], {shard_axes(job.mesh)}, kType);
    const Moved replicas = moved(expected, expected.classes[0], {shard_axes(expected.mesh)}, kType);
    EXPECT_GT(own.sum(), 0) << stage;
    EXPECT_DOUBLE_EQ(own.gathered, replicas.gathered) << stage;
    EXPECT_DOUBLE_EQ(own.reduce_scattered, replicas.reduce_scattered) << stage;
    EXPECT_DOUBLE_EQ(own.all_reduced, replicas.all_reduced) << stage;
    const auto states = [](const Job& of) {
      std::int64_t bytes = 0;
      for (const Buffer& buffer : of.classes[0].program.buffers)
        if (buffer.unpadded.value > 0) bytes += buffer.size().value;
      return bytes;
    };
    EXPECT_EQ(states(job), states(expected)) << stage;
  }
}

}  // namespace
}  // namespace zplan
