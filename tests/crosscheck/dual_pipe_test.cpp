// DualPipe, whose replicas are pairs that each go through both of their pipelines, against one
// rank: a flush in every step, so it trains what any schedule does.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/plan_space.h"
#include "tests/support/tensor_values.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::states;
using testing_support::steps;
using testing_support::Tensors;
using testing_support::train;

constexpr double kTolerance = 1e-10;
constexpr int kSteps = 3;

Plan one_rank(const std::string& model, std::int64_t global_batch) {
  Plan plan = testing_support::base_plan("cpu.f64", model);
  plan.batch.global_batch = global_batch;
  plan.batch.micro_batch = 1;
  return plan;
}

Plan paired(const std::string& model, std::int64_t global_batch, std::int32_t pp) {
  Plan plan = one_rank(model, global_batch);
  plan.parallel.pp = pp;
  plan.parallel.dp = 2;
  plan.schedule = Schedule::kDualPipe;
  return plan;
}

void expect_agreement(const Plan& plan) {
  ASSERT_EQ(illegal(plan, shape_of(load_model(plan.model))), std::nullopt);
  Plan one = one_rank(plan.model, plan.batch.global_batch);
  one.kernel_set = plan.kernel_set;
  one.dropout = plan.dropout;
  const auto got = train(plan, steps(kSteps)), expected = train(one, steps(kSteps));
  const Tensors trained = states(*got);
  for (const auto& [name, values] : states(*expected)) {
    const std::vector<double>& mine = trained.at(name);
    if (testing_support::is_qkv_bias(name) || testing_support::is_key_bias(name)) continue;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(mine[i], values[i], kTolerance) << name << "[" << i << "]";
  }
  for (std::size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(got->result.steps[i].loss, expected->result.steps[i].loss, kTolerance);
    EXPECT_NEAR(got->result.steps[i].gradient_norm, expected->result.steps[i].gradient_norm,
                kTolerance);
  }
  EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt);
}

TEST(DualPipe, TrainsWhatOneRankDoes) {
  expect_agreement(paired("tiny-llama", 8, 2));
  expect_agreement(paired("tiny-llama", 14, 2));
  expect_agreement(paired("tiny-gpt", 8, 2));   // the embedding is the head too
  expect_agreement(paired("tiny-bert", 8, 2));  // masked tokens
}

TEST(DualPipe, AgreesWithShardsAndOtherAxes) {
  const std::vector<std::function<void(Plan&)>> changes = {
      [](Plan& p) { p.parallel.dp = 4, p.batch.global_batch = 16; },
      [](Plan& p) { p.zero_stage = 1; },
      [](Plan& p) {
        p.zero_stage = 2, p.overlap = {false, false, false};
      },
      [](Plan& p) { p.zero_stage = 3; },
      [](Plan& p) { p.parallel.tp = 2, p.parallel.sequence_parallel = true; },
      [](Plan& p) { p.parallel.cp = 2; },
      [](Plan& p) { p.placement.optimizer = Tier::kCpu; },
      [](Plan& p) {
        p.stage_layers = {0, 1, 2, 1};
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    Plan plan = paired("tiny-llama", 8, 2);
    changes[i](plan);
    expect_agreement(plan);
  }
}

// Each way drops what its own sequences drop wherever they are.
TEST(DualPipe, DropsTheSameElements) {
  Plan plan = paired("tiny-llama", 8, 2);
  plan.kernel_set = "cpu.f64.unfused";
  plan.dropout = true;
  expect_agreement(plan);
}

TEST(DualPipe, TakesGroupsOfExperts) {
  Plan plan = paired("tiny-moe", 16, 2);
  plan.parallel.dp = 4;
  plan.parallel.ep = 2;
  plan.expert_imbalance = 0;
  expect_agreement(plan);
}

}  // namespace
}  // namespace zplan
