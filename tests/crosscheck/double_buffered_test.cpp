// A pipeline without flush [Narayanan20 sec 3.1] against one rank with its definition: step i + 1
// trains on parameters that were updated from the gradients of step i - 1. That is what a delayed
// update does, which delayed_update_test.cpp holds against the definition worked out by hand.
#include <gtest/gtest.h>

#include "tests/support/sanitized.h"
#include "tests/support/stale_pipelines.h"

namespace zplan {
namespace {

using testing_support::furthest_parameter;
using testing_support::steps;
using testing_support::train;
using testing_support::unclipped_rank;

constexpr double kTolerance = 1e-10;
constexpr int kSteps = testing_support::kSanitized ? 3 : 5;

Plan delayed(Plan plan) {
  plan.delayed_update = true;
  plan.placement.optimizer = Tier::kCpu;
  return plan;
}

Plan piped(const std::string& model, std::int64_t global_batch, std::int32_t pp) {
  return testing_support::unclipped_pipeline(model, global_batch, pp, Schedule::kDoubleBuffered);
}

// After every number of steps: the states of all stages are those of the same step.
void expect_agreement(const Plan& plan) {
  ASSERT_EQ(illegal(plan, shape_of(load_model(plan.model))), std::nullopt);
  const Plan one = delayed(unclipped_rank(plan.model, plan.batch.global_batch));
  for (const int n : {1, 2, kSteps}) {
    SCOPED_TRACE(n);
    const auto got = train(plan, steps(n)), expected = train(one, steps(n));
    testing_support::expect_same_training(*got, *expected, kTolerance);
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
  const auto changes = testing_support::changes_beside_the_schedule();
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
  const auto stale = train(piped("tiny-llama", 8, 2), steps(kSteps));
  EXPECT_GT(furthest_parameter(*train(flushed, steps(kSteps)), *stale), 1e-4);
}

}  // namespace
}  // namespace zplan
