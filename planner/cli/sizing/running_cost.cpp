#include "planner/cli/sizing/running_cost.h"

#include <fmt/format.h>

#include "hwprofiles/running.h"

namespace zplan {
namespace {

constexpr double kWattsPerMegawatt = 1e6, kWattsPerKilowatt = 1e3;
constexpr const char* kAsGiven = "as given";

}  // namespace

std::optional<double> RunningCost::money(double gpu_hours) const {
  return price ? std::optional(gpu_hours * *price) : std::nullopt;
}

std::optional<double> RunningCost::megawatt_hours(double node_hours) const {
  return watts ? std::optional(node_hours * *watts / kWattsPerMegawatt) : std::nullopt;
}

RunningCost running_cost(const RunningSettings& settings, const HwProfile& node) {
  RunningCost cost;
  if (settings.price >= 0) {
    cost.price = settings.price;
    cost.price_source = kAsGiven;
  } else if (const auto known = gpu_hour_price(node)) {
    cost.price = known->value;
    cost.price_source = known->ref;
  }
  if (settings.node_watts >= 0) {
    cost.watts = settings.node_watts;
    cost.watts_source = kAsGiven;
  } else if (const auto known = max_power_watts(node)) {
    cost.watts = known->value;
    cost.watts_source = known->ref;
  }
  return cost;
}

std::string power_words(const RunningCost& cost) {
  if (!cost.watts) return "";
  return fmt::format("{:.4g} kW a node ({})", *cost.watts / kWattsPerKilowatt, cost.watts_source);
}

}  // namespace zplan
