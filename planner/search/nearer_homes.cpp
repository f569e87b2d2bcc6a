#include "planner/search/nearer_homes.h"

#include <algorithm>
#include <utility>

namespace zplan {
namespace {

// [derived] bytes moved in a step for each that is kept: parameters go to the GPU in each pass of
// each micro-batch, gradients in each backward, optimizer states once there and back.
constexpr std::pair<ModelState, const char*> kOrder[] = {
    {ModelState::kParameters, "/placement/params_near"},
    {ModelState::kGradients, "/placement/grads_near"},
    {ModelState::kOptimizer, "/placement/optimizer_near"}};
// Steps that halve, from a quarter of what fits, of no less than this part of the layers.
constexpr int kSteps = 3;
constexpr std::int32_t kSmallestStep = 32;

}  // namespace

NearerHomes::NearerHomes(const ModelConfig& model, const Pins& pins, Fits fits, Fastest fastest)
    : shape_(shape_of(model)), fits_(std::move(fits)), fastest_(std::move(fastest)) {
  for (const auto& [state, pointer] : kOrder)
    if (!pins.has(pointer)) states_.push_back(state);
}

Plan NearerHomes::tune(Plan plan) const {
  for (const ModelState state : states_) plan = tune(plan, state);
  return plan;
}

std::int32_t NearerHomes::units(const Plan& plan) const {
  return static_cast<std::int32_t>(shape_.layers) / plan.parallel.pp / plan.unit_layers();
}

Plan NearerHomes::with(Plan plan, ModelState state, std::int32_t units) const {
  plan.placement.near_share(state) = static_cast<double>(units) / this->units(plan);
  return plan;
}

// More than there are now, as far as they fit; 0: none.
std::int32_t NearerHomes::most(const Plan& plan, ModelState state) const {
  const std::int32_t all = units(plan) - (state == ModelState::kOptimizer ? 0 : 1);
  const auto can = [&](std::int32_t n) {
    const Plan nearer = with(plan, state, n);
    return !illegal(nearer, shape_) && fits_(nearer);
  };
  std::int32_t fitting = plan.placement.near_units(state, units(plan)), beyond = all + 1;
  if (fitting >= all || !can(fitting + 1)) return 0;
  for (++fitting; beyond - fitting > 1;) {
    const std::int32_t between = (fitting + beyond) / 2;
    (can(between) ? fitting : beyond) = between;
  }
  return fitting;
}

Plan NearerHomes::tune(const Plan& plan, ModelState state) const {
  if (plan.placement.of(state) == Tier::kGpu) return plan;
  const std::int32_t most = this->most(plan, state);
  if (most == 0) return plan;
  std::vector<Plan> first{with(plan, state, most)};
  if (most > 1) first.push_back(with(plan, state, most / 2));
  Plan best = fastest_(plan, std::move(first));
  std::int32_t step = most / 4;
  const std::int32_t least = std::max(1, units(plan) / kSmallestStep);
  for (int i = 0; i < kSteps && step >= least; ++i, step /= 2) {
    const std::int32_t at = best.placement.near_units(state, units(plan));
    if (at == most) break;
    std::vector<Plan> around;
    for (const std::int32_t n : {at - step, at + step})
      if (n > 0 && n < most) around.push_back(with(best, state, n));
    best = fastest_(best, std::move(around));
  }
  return best;
}

}  // namespace zplan
