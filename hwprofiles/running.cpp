#include "hwprofiles/running.h"

#include <string_view>

#include "hwprofiles/sourced_object.h"

namespace zplan {
namespace {

constexpr double kMostWatts = 1e6;  // [assumed] of a node
constexpr double kMostPrice = 1e9;

std::optional<RunningFigure> figure(const HwProfile& node, std::string_view pointer) {
  for (const ValueSource& value : node.sources)
    if (value.pointer == pointer)
      return RunningFigure{std::stod(value.value), value.source, value.ref};
  return std::nullopt;
}

}  // namespace

void read_running(const JsonNode& node, std::vector<ValueSource>& sources) {
  SourcedObject in(node, sources);
  if (in.has("max_power_watts")) in.number("max_power_watts", 1, kMostWatts);
  if (in.has("gpu_hour_price")) in.number("gpu_hour_price", 0, kMostPrice);
  in.finish();
}

std::optional<RunningFigure> max_power_watts(const HwProfile& node) {
  return figure(node, "/running/max_power_watts");
}

std::optional<RunningFigure> gpu_hour_price(const HwProfile& node) {
  return figure(node, "/running/gpu_hour_price");
}

}  // namespace zplan
