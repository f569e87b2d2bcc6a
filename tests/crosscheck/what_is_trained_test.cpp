// Optimizers, LoRA and rounded products, these on a model that is wide enough for their blocks:
// plans of several ranks train as one rank does with the same of these, in fp64 to 1e-10, and
// otherwise than plain training.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "planner/program/verify/verify.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

constexpr double kTolerance = 1e-10;
using Change = std::function<void(Plan&)>;

struct Kind {
  const char* name;
  Change change;
  bool cuts_tensors = true;  // with tensor parallelism
  bool leaves_gpu = true;    // goes with an optimizer on the CPU
  bool is_wide = false;      // heads have 128 elements
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

ModelConfig model_of(const Kind& kind) {
  ModelConfig model = load_model("tiny-llama");
  model.layers = 2;
  if (!kind.is_wide) return model;
  model.name = "wide";
  model.hidden = 256;
  model.heads = model.kv_heads = 2;
  model.ffn = 512;
  return model;
}

std::unique_ptr<testing_support::Trained> train(const Kind& kind, const Plan& plan) {
  auto trained = std::make_unique<testing_support::Trained>();
  trained->job = lower(plan, model_of(kind));
  place(trained->job, {.slack = plan.slack});
  exec::RunOptions options;
  options.steps = 2;
  trained->result = testing_support::run_text(trained->job, options);
  return trained;
}

Plan plan_of(const Change& change) {
  Plan plan = testing_support::base_plan("cpu.f64");
  change(plan);
  return plan;
}

class WhatIsTrained : public testing::TestWithParam<Kind> {};

TEST_P(WhatIsTrained, PlansOfSeveralRanksAgreeWithOne) {
  const Kind& kind = GetParam();
  const auto one = train(kind, plan_of(kind.change));
  std::vector<Change> plans = {
      [](Plan& p) { p.parallel.dp = 4, p.zero_stage = 3, p.batch.micro_batch = 2; },
      [](Plan& p) {
        p.parallel.pp = 2, p.recompute = {{Recompute::kFull, 0}};
      },
  };
  if (kind.cuts_tensors) {
    plans.emplace_back([](Plan& p) {
      p.parallel.tp = p.parallel.dp = 2, p.zero_stage = 3, p.parallel.sequence_parallel = true;
    });
  }
  if (kind.leaves_gpu)
    plans.emplace_back([](Plan& p) {
      p.parallel.dp = 2, p.zero_stage = 2, p.placement.optimizer = p.placement.grads = Tier::kNvme;
    });
  static testing_support::Thinned thinned(testing_support::one_in(2));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (thinned.skips()) continue;
    const Plan plan = plan_of([&](Plan& p) { kind.change(p), plans[i](p); });
    ASSERT_EQ(illegal(plan, shape_of(model_of(kind))), std::nullopt) << i;
    const auto got = train(kind, plan);
    EXPECT_EQ(verify(got->job), std::vector<std::string>{}) << i;
    for (std::size_t step = 0; step < got->result.steps.size(); ++step)
      EXPECT_NEAR(got->result.steps[step].loss, one->result.steps[step].loss, kTolerance) << i;
    const auto worst =
        exec::largest_difference(got->job, got->result.memory, one->job, one->result.memory);
    if (worst) {
      EXPECT_NEAR(worst->first, worst->second, kTolerance) << i << " " << worst->tensor;
    }
    EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt) << i;
  }
}

TEST_P(WhatIsTrained, IsNotPlainTraining) {
  const Kind& kind = GetParam();
  const auto plain = train(kind, plan_of([](Plan&) {})), got = train(kind, plan_of(kind.change));
  const double expected = plain->result.steps.back().loss;
  EXPECT_GT(std::abs(got->result.steps.back().loss - expected), 1e-7);
  EXPECT_NEAR(got->result.steps.back().loss, expected, 0.2 * expected);
}

const Kind kKinds[] = {
    {"sgd", [](Plan& p) { p.optimizer.kind = OptimizerKind::kSgd; }},
    {"momentum", [](Plan& p) { p.optimizer.kind = OptimizerKind::kSgdMomentum; }},
    {"eight_bit",
     [](Plan& p) {
       p.optimizer = {OptimizerKind::kAdamW8Bit, 128};
     },
     true, true, true},
    {"muon", [](Plan& p) { p.optimizer.kind = OptimizerKind::kMuon; }, false, false},
    {"adafactor", [](Plan& p) { p.optimizer.kind = OptimizerKind::kAdafactor; }, false, false},
    {"adafactor_of_factors",
     [](Plan& p) {
       p.optimizer.kind = OptimizerKind::kAdafactor;
       p.train = {.what = Trained::kLora, .rank = 4};
     },
     false, false},
    {"layers", [](Plan& p) { p.train.what = Trained::kLayers; }},
    {"lora", [](Plan& p) { p.train = {.what = Trained::kLora, .rank = 4}; }},
    {"lora_of_attention",
     [](Plan& p) {
       p.train = {.what = Trained::kLora, .targets = LoraTargets::kAttention};
       p.optimizer.kind = OptimizerKind::kSgdMomentum;
     }},
    {"qlora",
     [](Plan& p) { p.train = {.what = Trained::kLora, .rank = 4, .base = BaseType::kNf4}; }, true,
     true, true},
    {"qlora_with_scales_of_8_bits",
     [](Plan& p) {
       p.train = {.what = Trained::kLora, .rank = 4, .by_root = true, .base = BaseType::kFp4Double};
     },
     false, true, true},
    {"lora_and_both_ends",
     [](Plan& p) { p.train = {.what = Trained::kLora, .rank = 4, .saved = LoraSaved::kBoth}; }},
    {"fp8", [](Plan& p) { p.kernel_set = "cpu.f64.fp8"; }, true, true, true},
    {"fp8_and_eight_bit",
     [](Plan& p) {
       p.kernel_set = "cpu.f64.fp8";
       p.optimizer = {OptimizerKind::kAdamW8Bit, 64};
     },
     true, true, true},
};

INSTANTIATE_TEST_SUITE_P(All, WhatIsTrained, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace zplan
