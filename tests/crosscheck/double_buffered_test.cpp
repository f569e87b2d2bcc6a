// A pipeline without flush [Narayanan20 sec 3.1] against one rank with its definition: step i + 1
// trains on parameters that were updated from the gradients of step i - 1. That is what a delayed
// update does, which delayed_update_test.cpp holds against the definition worked out by hand.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::expect_near;
using testing_support::states;
using testing_support::steps;
using testing_support::Tensors;
using testing_support::train;

constexpr double kTolerance = 1e-10;
constexpr int kSteps = testing_support::kSanitized ? 3 : 5;

Plan one_rank(const std::string& model, std::int64_t global_batch) {
  Plan plan = testing_support::base_plan("cpu.f64", model);
  plan.batch.global_batch = global_batch;
  plan.batch.micro_batch = 1;
  plan.clip = false;
  return plan;
}

Plan delayed(Plan plan) {
  plan.delayed_update = true;
  plan.placement.optimizer = Tier::kCpu;
  return plan;
}

Plan piped(const std::string& model, std::int64_t global_batch, std::int32_t pp) {
  Plan plan = one_rank(model, global_batch);
  plan.parallel.pp = pp;
  plan.schedule = Schedule::kDoubleBuffered;
  return plan;
}

// After every number of steps: the states of all stages are those of the same step.
void expect_agreement(const Plan& plan) {
  ASSERT_EQ(illegal(plan, shape_of(load_model(plan.model))), std::nullopt);
  for (const int n : {1, 2, kSteps}) {
    SCOPED_TRACE(n);
    const auto got = train(plan, steps(n));
    const auto expected = train(delayed(one_rank(plan.model, plan.batch.global_batch)), steps(n));
    for (const exec::State state :
         {exec::State::kParam, exec::State::kMoment1, exec::State::kMoment2})
      expect_near(states(*got, state), states(*expected, state), kTolerance);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      EXPECT_NEAR(got->result.steps[i].loss, expected->result.steps[i].loss, kTolerance);
  }
}

TEST(DoubleBuffered, IsADelayOfOneStepOnAnyNumberOfStages) {
  for (const std::int32_t pp : {2, 3, 4})
    for (const std::int64_t micro_steps : {4, 7, 8}) {
      SCOPED_TRACE(pp);
      SCOPED_TRACE(micro_steps);
      expect_agreement(piped("tiny-llama", micro_steps, pp));
    }
}

// An embedding that is the output head too has gradients on the first stage and on the last.
TEST(DoubleBuffered, SumsTheGradientsOfATiedEmbeddingOfOneStep) {
  expect_agreement(piped("tiny-gpt", 8, 2));
  expect_agreement(piped("tiny-bloom", 7, 4));
}

TEST(DoubleBuffered, AgreesWithShardsTiersAndRecomputation) {
  const std::vector<std::function<void(Plan&)>> changes = {
      [](Plan& p) { p.parallel.dp = 2; },
      [](Plan& p) { p.parallel.dp = 2, p.zero_stage = 1; },
      [](Plan& p) {
        p.parallel.dp = 2, p.zero_stage = 1, p.overlap = {false, false, false};
      },
      [](Plan& p) { p.parallel.tp = 2, p.parallel.sequence_parallel = true; },
      [](Plan& p) { p.parallel.cp = 2; },
      [](Plan& p) { p.recompute = {{.mode = Recompute::kFull}}; },
      [](Plan& p) {
        p.recompute = {{.mode = Recompute::kFull}};
        p.placement.activations = Tier::kNvme;
      },
      [](Plan& p) { p.placement.optimizer = Tier::kCpu; },
      [](Plan& p) { p.placement.optimizer = Tier::kNvme; },
      [](Plan& p) { p.offload.moment1 = true; },
      [](Plan& p) {
        p.stage_layers = {1, 3};
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    Plan plan = piped("tiny-llama", 8, 2);
    changes[i](plan);
    expect_agreement(plan);
  }
}

// So that agreement says something: without a delay the parameters are others.
TEST(DoubleBuffered, IsNotWhatAFlushTrains) {
  Plan flushed = piped("tiny-llama", 8, 2);
  flushed.schedule = Schedule::kOneForwardOneBackward;
  const Tensors a = states(*train(flushed, steps(kSteps)), exec::State::kParam);
  const Tensors b = states(*train(piped("tiny-llama", 8, 2), steps(kSteps)), exec::State::kParam);
  double furthest = 0;
  for (const auto& [name, values] : a)
    for (std::size_t i = 0; i < values.size(); ++i)
      furthest = std::max(furthest, std::abs(values[i] - b.at(name)[i]));
  EXPECT_GT(furthest, 1e-4);
}

}  // namespace
}  // namespace zplan
