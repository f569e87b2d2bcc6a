// The worked examples of DeepSpeed's memory estimators [DeepSpeed]: bytes of the host of
// a node | of a GPU, printed there as "GB" and "MB", which are GiB and MiB. Tolerance: half of the
// last digit printed.
#include <gtest/gtest.h>

#include "planner/search/deepspeed_estimate.h"

namespace zplan {
namespace {

constexpr double kGiB = 1 << 30, kMiB = 1 << 20;
constexpr double kLastDigit = 0.0051;

using enum DeepSpeedOffload;

// One node of 8 GPUs; a model of 2,851 million parameters, the largest layer of 32 million.
const DeepSpeedJob kExample{2'851'000'000, 32'000'000, 8, 1};

void expect_gib(const DeepSpeedEstimate& estimate, double host, double gpu) {
  EXPECT_NEAR(static_cast<double>(estimate.host.value) / kGiB, host, kLastDigit);
  EXPECT_NEAR(static_cast<double>(estimate.gpu.value) / kGiB, gpu, kLastDigit);
}

TEST(DeepSpeedEstimators, Zero2) {
  expect_gib(deepspeed_zero2(kExample, kOptimizer), 127.45, 5.31);
  expect_gib(deepspeed_zero2(kExample, kNone, DeepSpeedRule::kDocumented), 127.45, 15.93);
  expect_gib(deepspeed_zero2(kExample, kNone, DeepSpeedRule::kCurrent), 127.45, 11.28);
}

TEST(DeepSpeedEstimators, Zero3) {
  expect_gib(deepspeed_zero3(kExample, kAll, true), 71.69, 0.12);
  expect_gib(deepspeed_zero3(kExample, kAll, false), 127.45, 0.12);
  expect_gib(deepspeed_zero3(kExample, kOptimizer, true), 63.72, 0.78);
  expect_gib(deepspeed_zero3(kExample, kOptimizer, false), 127.45, 0.78);
  expect_gib(deepspeed_zero3(kExample, kNone, true), 1.43, 6.09);
  expect_gib(deepspeed_zero3(kExample, kNone, false), 127.45, 6.09);
}

// t5-large, 737.67 million parameters, the largest layer 32.90 million, on 4 GPUs.
TEST(DeepSpeedEstimators, T5Large) {
  const DeepSpeedJob job{737'670'000, 32'900'000, 4, 1};
  const auto gpu_mib = [&](DeepSpeedOffload offload) {
    return static_cast<double>(deepspeed_zero3(job, offload).gpu.value) / kMiB;
  };
  EXPECT_NEAR(gpu_mib(kNone), 3291, 1);  // printed without decimals, of rounded counts
  EXPECT_NEAR(gpu_mib(kAll), 125, 1);
  EXPECT_NEAR(gpu_mib(kOptimizer), 477, 1);
}

TEST(DeepSpeedEstimators, APlanPicksItsCase) {
  const ModelConfig model = load_model("gpt2-124m");
  Plan plan;
  plan.parallel.dp = 8;
  const DeepSpeedJob job = deepspeed_job(plan, model, 8);
  EXPECT_EQ(job.largest_layer, model.vocab * model.hidden);
  EXPECT_EQ(job.gpus_per_node, 8);
  EXPECT_EQ(job.nodes, 1);
  const auto estimate = [&] {
    return deepspeed_estimate(plan, job, DeepSpeedRule::kCurrent, true);
  };
  EXPECT_FALSE(estimate());
  plan.zero_stage = 2;
  EXPECT_EQ(estimate()->gpu, deepspeed_zero2(job, kNone).gpu);
  plan.placement.optimizer = Tier::kNvme;
  EXPECT_EQ(estimate()->host, deepspeed_zero2(job, kOptimizer).host);
  plan.zero_stage = 3;
  EXPECT_EQ(estimate()->gpu, deepspeed_zero3(job, kOptimizer).gpu);
  plan.placement.params = Tier::kCpu;
  EXPECT_EQ(estimate()->gpu, deepspeed_zero3(job, kAll).gpu);
}

// A node's host holds the share of every slice on it, whatever the slices are.
TEST(DeepSpeedEstimators, TheHostIsThatOfAllSlicesOnANode) {
  const ModelConfig model = load_model("gpt2-124m");
  Plan plan;
  plan.zero_stage = 3;
  plan.placement = {.params = Tier::kCpu, .grads = Tier::kCpu, .optimizer = Tier::kCpu};
  const auto host = [&](std::int32_t dp, std::int32_t tp, std::int32_t pp) {
    plan.parallel = {.dp = dp, .tp = tp, .pp = pp};
    const DeepSpeedJob job = deepspeed_job(plan, model, 8);
    EXPECT_EQ(job.slices_per_node, std::min(tp * pp, 8));
    const DeepSpeedEstimate alone = deepspeed_zero3(job, kAll);
    const auto all = deepspeed_estimate(plan, job, DeepSpeedRule::kCurrent, true);
    EXPECT_EQ(all->gpu, alone.gpu);
    return static_cast<double>(all->host.value);
  };
  const double one_node = host(8, 1, 1), two_nodes = host(16, 1, 1);
  constexpr double kRounding = 1e-6;  // a slice is a whole number of parameters
  EXPECT_NEAR(host(2, 4, 1) / one_node, 1, kRounding);
  EXPECT_NEAR(host(4, 1, 2) / one_node, 1, kRounding);
  EXPECT_NEAR(host(1, 4, 2) / one_node, 1, kRounding);
  EXPECT_NEAR(host(4, 2, 2) / two_nodes, 1, kRounding);
  EXPECT_NEAR(host(1, 8, 2) / two_nodes, 1, kRounding);  // more slices than GPUs of a node
}

}  // namespace
}  // namespace zplan
