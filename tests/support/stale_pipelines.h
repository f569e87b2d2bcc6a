// Pipelines that train on older parameters: their plans, what may stand beside the schedule, and
// how two trainings are compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan::testing_support {

inline Plan unclipped_rank(const std::string& model, std::int64_t global_batch) {
  Plan plan = base_plan("cpu.f64", model);
  plan.batch.global_batch = global_batch;
  plan.batch.micro_batch = 1;
  plan.clip = false;
  return plan;
}

inline Plan unclipped_pipeline(const std::string& model, std::int64_t global_batch, std::int32_t pp,
                               Schedule schedule) {
  Plan plan = unclipped_rank(model, global_batch);
  plan.parallel.pp = pp;
  plan.schedule = schedule;
  return plan;
}

// Shards, homes and recomputation.
inline std::vector<std::function<void(Plan&)>> changes_beside_the_schedule() {
  return {[](Plan& p) { p.parallel.dp = 2; },
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
}

// Parameters and moments after the last step, losses after each.
inline void expect_same_training(const Trained& got, const Trained& expected, double tolerance) {
  for (const exec::State state :
       {exec::State::kParam, exec::State::kMoment1, exec::State::kMoment2})
    expect_near(states(got, state), states(expected, state), tolerance);
  ASSERT_EQ(got.result.steps.size(), expected.result.steps.size());
  for (std::size_t i = 0; i < expected.result.steps.size(); ++i)
    EXPECT_NEAR(got.result.steps[i].loss, expected.result.steps[i].loss, tolerance);
}

// Of the elements of all parameters.
inline double furthest_parameter(const Trained& a, const Trained& b) {
  const Tensors theirs = states(b);
  double furthest = 0;
  for (const auto& [name, values] : states(a))
    for (std::size_t i = 0; i < values.size(); ++i)
      furthest = std::max(furthest, std::abs(values[i] - theirs.at(name)[i]));
  return furthest;
}

}  // namespace zplan::testing_support
