// The same plan on other hardware: the two quantities that its step follows most, each at a few
// factors, all simulated.
#include <array>

#include "planner/cli/report/report.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr std::array kFactors = {0.5, 0.75, 1.0, 1.5, 2.0, 4.0};
constexpr double kAsked = 0.1;  // change of a quantity that its gain is counted for

std::optional<Seconds> step_on(const PlanPrices& prices,
                               const std::vector<QuantityChange>& changes) {
  try {
    const Cluster changed = with_changes(prices.chosen.cluster, changes);
    return sim::simulate(prices.chosen.planned.job, changed).period;
  } catch (const Error&) {  // no cluster has such a value
    return std::nullopt;
  }
}

std::vector<const HardwareQuantity*> most_followed(const PlanPrices& prices) {
  std::vector<const HardwareQuantity*> most;
  for (const ShadowPrice& price : prices.found.prices) {
    const bool counts = price.saved(kAsked).value > 1e-3 * prices.found.step.period.value;
    if (counts && is_better_more(*price.quantity)) most.push_back(price.quantity);
  }
  return most;
}

}  // namespace

std::optional<StepGrid> step_grid(const PlanPrices& prices) {
  const std::vector<const HardwareQuantity*> most = most_followed(prices);
  if (most.size() < 2) return std::nullopt;
  StepGrid grid{most[0], most[1], {kFactors.begin(), kFactors.end()}, {}};
  for (const double row : grid.factors) {
    for (const double column : grid.factors) {
      const std::vector<QuantityChange> changes = {{grid.row, row, true},
                                                   {grid.column, column, true}};
      grid.steps.push_back(step_on(prices, changes));
    }
  }
  return grid;
}

}  // namespace zplan
