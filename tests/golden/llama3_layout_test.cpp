// The layout that Llama 3 405B was trained with: tp 8, pp 16, 8,192 and 16,384 GPUs, 16M tokens a
// step [Dubey24 Table 4]. One layer less in the first and the last piece, so that embedding and
// head count as layers [Dubey24 sec 3.3.2], makes 128 equal pieces: 8 chunks of one layer on each
// of 16 stages. The bubble of 1F1B, (p - 1) / m, shrinks to (p - 1) / (m v) [Narayanan21
// sec 2.2.2].
#include <gtest/gtest.h>

#include "models/model_formulas.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/verify/verify.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

constexpr std::int32_t kStages = 16, kChunks = 8;

Plan layout(std::int32_t dp, bool interleaved) {
  Plan plan;
  plan.model = "llama3-405b";
  plan.hardware = "dgx-h100x" + std::to_string(dp * 8 * kStages / 8);
  plan.kernel_set = "cuda.sm90.bf16";
  plan.precision = *find_recipe("fp32-gradients", plan.kernel_set);
  plan.parallel = {.dp = dp, .tp = 8, .pp = kStages, .sequence_parallel = true};
  plan.zero_stage = 1;
  plan.batch = {.global_batch = 2048, .micro_batch = 1, .sequence = 8192};
  plan.clip = false;
  if (!interleaved) return plan;
  plan.schedule = Schedule::kInterleaved;
  plan.parallel.chunks = kChunks;
  plan.stage_layers.assign(kStages * kChunks, 1);
  plan.stage_layers.front() = plan.stage_layers.back() = 0;
  return plan;
}

// Of the time that the busiest stage computes, what the step takes longer.
double idle(const Plan& plan) {
  Job job = lower(plan, load_model(plan.model));
  place(job, {.slack = plan.slack});
  EXPECT_TRUE(verify(job).empty());
  const sim::SimResult result = sim::simulate(job, load_cluster(plan.hardware));
  double longest = 0;
  for (const sim::LaneReport& lane : result.lanes)
    if (lane.lane == Lane::kCompute) longest = std::max(longest, lane.busy.value);
  return result.period.value / longest - 1;
}

TEST(Llama3, LosesItsBubbleWithInterleavedStages) {
  EXPECT_EQ(parameter_count(load_model("llama3-405b")), 405'853'388'800);
  for (const auto& [dp, bubble] : {std::pair{64, 15.0 / 32}, std::pair{128, 15.0 / 16}}) {
    const double plain = idle(layout(dp, false)), interleaved = idle(layout(dp, true));
    EXPECT_GT(plain, 0.9 * bubble) << dp;
    // Communication of tensor parallel ranks stretches the bubble; transfers between stages and the
    // update stay.
    EXPECT_LT(plain - interleaved, bubble * (1 - 1.0 / kChunks) * 1.1) << dp;
    EXPECT_GT(plain - interleaved, bubble * (1 - 1.0 / kChunks) * 0.8) << dp;
  }
}

}  // namespace
}  // namespace zplan
