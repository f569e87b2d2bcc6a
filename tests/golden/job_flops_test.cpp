// Floating-point operations of lowered Jobs against the papers' closed forms. The matrix products
// must agree exactly (with the padded vocabulary in place of V); attention differs by design: the
// papers count the full square and stored scores, zplan the causal half and their recomputation.
#include <gtest/gtest.h>

#include "models/model_formulas.h"
#include "planner/lower/lower.h"
#include "planner/program/kernel_table.h"

namespace zplan {
namespace {

std::int64_t instances(const Program& p, const Node& n) {
  std::int64_t times = 1;
  for (BlockIndex b = n.block; b != 0; b = p.blocks[b].parent) times *= p.blocks[b].count;
  return times;
}

double flop(const Job& job, WorkKind kind) {
  double sum = 0;
  for (const RankClass& c : job.classes)
    for (const Node& n : c.program.nodes)
      if (n.kind == OpKind::kKernel && kernel_def(n.kernel).kind == kind)
        sum += static_cast<double>(demand_of(c.program, n).flops.value) *
               static_cast<double>(instances(c.program, n)) * job.dp;
  return sum;
}

Plan plan_for(const ModelConfig& model, Recompute recompute, int pp) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.recompute = recompute;
  plan.parallel = {.dp = 4, .pp = pp};
  plan.zero_stage = 1;
  plan.batch = {.global_batch = 16, .micro_batch = 2, .sequence = model.sequence};
  return plan;
}

class JobFlops : public testing::TestWithParam<const char*> {};

TEST_P(JobFlops, MatrixProductsEqualNarayananEq3WithFullRecompute) {
  const ModelConfig model = load_model(GetParam());
  const double h = static_cast<double>(model.hidden), layers = static_cast<double>(model.layers);
  const double tokens = 16.0 * static_cast<double>(model.sequence);
  const double vocab = static_cast<double>(padded_vocab(model, 1));
  for (int pp : {1, 2}) {
    const Job job = lower(plan_for(model, Recompute::kFull, pp), model);
    // [Narayanan21 Eq.3] without its attention term s/(6h)
    EXPECT_DOUBLE_EQ(flop(job, WorkKind::kGemm),
                     96 * tokens * layers * h * h * (1 + vocab / (16 * layers * h)));
  }
}

TEST_P(JobFlops, MatrixProductsEqualKorthikantiEq7WithoutRecompute) {
  const ModelConfig model = load_model(GetParam());
  const double h = static_cast<double>(model.hidden), layers = static_cast<double>(model.layers);
  const double tokens = 16.0 * static_cast<double>(model.sequence);
  const double vocab = static_cast<double>(padded_vocab(model, 1));
  const Job job = lower(plan_for(model, Recompute::kNone, 1), model);
  // [Korthikanti22 Eq.7] without its attention term s/(6h)
  EXPECT_DOUBLE_EQ(flop(job, WorkKind::kGemm),
                   72 * tokens * layers * h * h * (1 + vocab / (12 * layers * h)));
}

TEST_P(JobFlops, AttentionIsTheCausalHalfWithRecomputedScores) {
  const ModelConfig model = load_model(GetParam());
  const double h = static_cast<double>(model.hidden), layers = static_cast<double>(model.layers);
  const double s = static_cast<double>(model.sequence);
  const double causal =
      16.0 * layers * h * s * (s + 1);  // one product: 2 flop x s(s+1)/2 pairs x h
  const Job none = lower(plan_for(model, Recompute::kNone, 1), model);
  EXPECT_DOUBLE_EQ(flop(none, WorkKind::kAttention), (2 + 5) * causal);  // [Dao22 sec 3]
  const Job full = lower(plan_for(model, Recompute::kFull, 1), model);
  EXPECT_DOUBLE_EQ(flop(full, WorkKind::kAttention), (2 + 2 + 5) * causal);
}

INSTANTIATE_TEST_SUITE_P(Models, JobFlops, testing::Values("gpt2-124m", "gpt3-175b", "tiny-gpt"));

}  // namespace
}  // namespace zplan
