// A delayed update against its definition [Ren21 sec 5.2], worked out by hand from runs without it:
// step i + 1 trains on parameters that were updated from the gradients of step i - 1.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "exec/memory/state_access.h"
#include "tests/support/gradient_log.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::expect_near;
using testing_support::GradientLog;
using testing_support::states;
using testing_support::steps;
using testing_support::Tensors;
using testing_support::train;

constexpr double kTolerance = 1e-12;

Plan on_host(const std::string& kernel_set) {
  Plan plan = testing_support::base_plan(kernel_set);
  plan.placement.optimizer = Tier::kCpu;
  return plan;
}

Plan delayed(Plan plan) {
  plan.delayed_update = true;
  return plan;
}

std::map<std::string, bool> decays(const Job& job) {
  std::map<std::string, bool> result;
  for (const exec::TensorRef& ref : exec::all_tensors(job))
    result[exec::tensor_name(job, ref)] = job.units[ref.unit].tensors[ref.tensor].decay;
  return result;
}

TEST(DelayedUpdate, FirstStepUpdatesNothing) {
  const auto one = train(delayed(on_host("cpu.f64")), steps(1));
  const auto none = train(on_host("cpu.f64"), steps(0));
  expect_near(states(*one, exec::State::kParam), states(*none, exec::State::kParam), kTolerance);
  expect_near(states(*one, exec::State::kMoment1), states(*none, exec::State::kMoment1),
              kTolerance);
}

TEST(DelayedUpdate, TwoStepsUpdateAsOneStepDoes) {
  const auto two = train(delayed(on_host("cpu.f64")), steps(2));
  const auto one = train(on_host("cpu.f64"), steps(1));
  for (exec::State state : exec::kStates)
    expect_near(states(*two, state), states(*one, state), kTolerance);
}

// The third updates from gradients that were still taken at the initial parameters.
TEST(DelayedUpdate, ThirdStepUpdatesFromGradientsOfStaleParameters) {
  exec::RunOptions still = steps(2);
  still.train.learning_rate = 0;
  still.train.clip_norm = 0;
  GradientLog log;
  const Plan plan = on_host("cpu.f64");
  const Job job = testing_support::placed_job(plan);
  still.observer = log.observer(job, 1);
  testing_support::run_text(job, still);
  const Tensors gradient = log.tensors(job);

  exec::RunOptions three = steps(3);
  three.train.clip_norm = 0;
  const auto got = train(delayed(plan), three);
  exec::RunOptions one = steps(1);
  one.train.clip_norm = 0;
  const auto before = train(plan, one);
  Tensors p = states(*before, exec::State::kParam);
  const Tensors m = states(*before, exec::State::kMoment1);
  const Tensors v = states(*before, exec::State::kMoment2);
  const TrainConfig& c = one.train;
  const std::map<std::string, bool> decaying = decays(job);
  for (auto& [name, values] : p)
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = gradient.at(name)[i];
      const double m2 = (c.beta1 * m.at(name)[i] + (1 - c.beta1) * g) / (1 - c.beta1 * c.beta1);
      const double v2 = (c.beta2 * v.at(name)[i] + (1 - c.beta2) * g * g) / (1 - c.beta2 * c.beta2);
      const double decay = decaying.at(name) ? c.learning_rate * c.weight_decay : 0;
      values[i] -= decay * values[i] + c.learning_rate * m2 / (std::sqrt(v2) + c.epsilon);
    }
  expect_near(states(*got, exec::State::kParam), p, kTolerance);
}

// What the optimizer sees are the gradients of the step before, with the loss scale of that step:
// the factor of the update undoes that one, not the scale of its own step.
TEST(DelayedUpdate, AChangeOfTheLossScaleDoesNotReachGradientsOfTheStepBefore) {
  Plan plan = on_host("cpu.fp16");
  plan.loss_scaling = true;
  const auto gradients = [](const Plan& which, std::int64_t step, exec::RunResult& result) {
    exec::RunOptions options = steps(3);
    options.train.learning_rate = 0;
    options.train.initial_loss_scale = 64;
    options.train.loss_scale_interval = 1;  // doubles in every step
    GradientLog log;
    const Job job = testing_support::placed_job(which);
    options.observer = log.observer(job, step);
    result = testing_support::run_text(job, options);
    return log.tensors(job);
  };
  exec::RunResult result;
  const Tensors own = gradients(plan, 1, result);
  const Tensors late = gradients(delayed(plan), 2, result);
  ASSERT_EQ(result.steps[1].loss_scale, 128);
  ASSERT_EQ(result.steps[2].loss_scale, 256);
  EXPECT_EQ(late, own);
}

// The same scale for all steps or one that changes in each: the updates differ by rounding only.
TEST(DelayedUpdate, TheLossScaleLeavesTheUpdateAsItIs) {
  Plan plan = delayed(on_host("cpu.fp16"));
  plan.loss_scaling = true;
  exec::RunOptions options = steps(4);
  options.train.initial_loss_scale = 1024;
  const auto fixed = train(plan, options);
  options.train.loss_scale_interval = 1;
  const auto doubled = train(plan, options);
  ASSERT_EQ(fixed->result.steps[3].loss_scale, 1024);
  ASSERT_EQ(doubled->result.steps[3].loss_scale, 8192);
  const Tensors expected = states(*fixed, exec::State::kMoment1);
  const Tensors got = states(*doubled, exec::State::kMoment1);
  for (const auto& [name, values] : expected) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(got.at(name)[i] - values[i], 2);
      size += std::pow(values[i], 2);
    }
    EXPECT_LE(difference, 1e-4 * size) << name;
  }
}

// Sharding, offload and recomputation change a delayed update as little as any other.
TEST(DelayedUpdate, PlansAgreeWithOneRank) {
  constexpr int kSteps = testing_support::kSanitized ? 3 : 5;  // the third is the first delayed one
  const auto expected = train(delayed(on_host("cpu.f64")), steps(kSteps));
  std::vector<Plan> plans;
  for (int stage : {0, 1, 2, 3})
    for (Tier optimizer : {Tier::kCpu, Tier::kNvme}) {
      Plan plan = delayed(on_host("cpu.f64"));
      plan.zero_stage = stage;
      plan.parallel.dp = 2;
      plan.batch.micro_batch = 2;
      plan.placement.optimizer = optimizer;
      if (stage >= 2) plan.placement.grads = Tier::kCpu;
      if (stage == 3) plan.placement.params = optimizer;
      plans.push_back(plan);
    }
  for (const Plan& plan : plans) {
    ASSERT_EQ(illegal(plan, shape_of(load_model(plan.model))), std::nullopt);
    const auto got = train(plan, steps(kSteps));
    expect_near(states(*got, exec::State::kParam), states(*expected, exec::State::kParam),
                kTolerance);
    for (std::size_t i = 0; i < kSteps; ++i)
      EXPECT_NEAR(got->result.steps[i].loss, expected->result.steps[i].loss, kTolerance);
  }
}

}  // namespace
}  // namespace zplan
