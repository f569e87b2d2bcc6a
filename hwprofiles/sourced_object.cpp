#include "hwprofiles/sourced_object.h"

#include <fmt/format.h>

#include <limits>

namespace zplan {

double SourcedObject::fraction(std::string_view key) {
  constexpr double kLeast = 1e-6;
  return value(key).number(kLeast, 1.0);
}

double SourcedObject::factor(std::string_view key) {
  constexpr double kMost = 10;
  return value(key).number(1.0, kMost);
}

JsonNode SourcedObject::value(std::string_view key) {
  constexpr double kHuge = std::numeric_limits<double>::max();
  const JsonNode node = object_.member(key);
  SourcedNode sourced = read_sourced(node);
  std::string shown;  // a value of another type fails in the caller
  if (sourced.value.is_string()) shown = sourced.value.string();
  if (sourced.value.is_number()) shown = fmt::format("{}", sourced.value.number(-kHuge, kHuge));
  sources_->push_back({node.pointer(), shown, sourced.source, sourced.ref});
  return sourced.value;
}

std::map<std::string, FlopsPerSecond, std::less<>> read_peaks(const JsonNode& node,
                                                              std::vector<ValueSource>& sources) {
  std::map<std::string, FlopsPerSecond, std::less<>> peaks;
  SourcedObject in(node, sources);
  for (const std::string_view dtype : kDTypeNames)
    if (in.has(dtype)) peaks.emplace(dtype, in.flops_per_second(dtype));
  in.finish();
  if (peaks.empty() && !node.is_missing()) node.fail_expected("a peak of at least one format");
  return peaks;
}

}  // namespace zplan
