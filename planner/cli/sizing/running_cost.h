// What a run costs in money and energy: from what the user states or, where he does not, from the
// profile of the nodes.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/hw_profile.h"
#include "planner/cli/frame/options.h"

namespace zplan {

struct RunningCost {
  std::optional<double> price;             // of a GPU-hour
  std::optional<double> watts;             // of a node
  std::string price_source, watts_source;  // "as given", or the reference of the profile

  std::optional<double> money(double gpu_hours) const;
  std::optional<double> megawatt_hours(double node_hours) const;
};
RunningCost running_cost(const RunningSettings& settings, const HwProfile& node);

// "10.2 kW a node (NVIDIA ..)"; empty: not known.
std::string power_words(const RunningCost& cost);

}  // namespace zplan
