// What it takes to run a node, where its profile says so: the optional object "running" of
// "zplan.hw/1",
//   max_power_watts   that a node draws at most
//   gpu_hour_price    in whatever currency; no node of the catalogue has one
// each a number with its source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/json_reader.h"

namespace zplan {

// Checks the object and adds its figures to the sources of the profile, where they are looked up.
void read_running(const JsonNode& node, std::vector<ValueSource>& sources);

struct RunningFigure {
  double value = 0;
  std::string source, ref;
};
std::optional<RunningFigure> max_power_watts(const HwProfile& node);
std::optional<RunningFigure> gpu_hour_price(const HwProfile& node);

}  // namespace zplan
