#include "planner/cli/sizing/running_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/running.h"

namespace zplan {
namespace {

constexpr double kWattsPerMegawatt = 1e6, kWattsPerKilowatt = 1e3;
constexpr const char* kAsGiven = "as given";

// [assumed] A part of a node draws the share of its GPUs in the power of the whole.
void take_power(RunningCost& cost, const RunningFigure& whole, const HwProfile& node) {
  const int used = node.devices_per_node, all = std::max(node.whole_devices, 1);
  cost.watts = whole.value * used / all;
  cost.watts_source = whole.ref;
  if (used != all)
    cost.watts_source = fmt::format("{} of {} GPUs of {:.4g} kW, in proportion [assumed]; {}", used,
                                    all, whole.value / kWattsPerKilowatt, whole.ref);
}

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
    take_power(cost, *known, node);
  }
  return cost;
}

std::string power_words(const RunningCost& cost) {
  if (!cost.watts) return "";
  return fmt::format("{:.4g} kW a node ({})", *cost.watts / kWattsPerKilowatt, cost.watts_source);
}

}  // namespace zplan
