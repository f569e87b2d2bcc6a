// How many layers have a state a tier nearer than the others: tuned on a plan, state by state.
//
// More layers take more of the nearer tier, so that there is a largest number that fits, which is
// found by placing plans, not by simulating them. It is taken where it is faster than half of it;
// else, where what works on the near layers would become the slowest, steps that halve come to
// fewer.
#pragma once

#include <functional>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

class NearerHomes {
 public:
  using Fits = std::function<bool(const Plan&)>;
  // The fastest of a plan and of others.
  using Fastest = std::function<Plan(const Plan&, std::vector<Plan>)>;

  NearerHomes(const ModelConfig& model, const Pins& pins, Fits fits, Fastest fastest);

  // The states one after the other, each on what those before it have left: those first that move
  // most in a step for what they take.
  Plan tune(Plan plan) const;

 private:
  Plan tune(const Plan& plan, ModelState state) const;
  Plan with(Plan plan, ModelState state, std::int32_t units) const;
  std::int32_t units(const Plan& plan) const;  // of a stage
  std::int32_t most(const Plan& plan, ModelState state) const;

  ModelShape shape_;
  std::vector<ModelState> states_;
  Fits fits_;
  Fastest fastest_;
};

}  // namespace zplan
