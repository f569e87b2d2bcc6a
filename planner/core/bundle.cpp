#include "planner/core/bundle.h"

#include <algorithm>

namespace zplan {

std::optional<JsonNode> bundle_part(const JsonNode& root, std::string_view part) {
  if (!root.is_object()) return std::nullopt;
  const auto members = root.members();
  const bool is_bundle = std::any_of(members.begin(), members.end(), [](const auto& member) {
    return member.first == "schema" && member.second.is_string() &&
           member.second.string().starts_with("zplan.bundle/");
  });
  if (!is_bundle) return std::nullopt;
  JsonObject bundle = root.object();
  bundle.schema(kBundleTag);
  std::optional<JsonNode> found;
  for (const std::string_view known : {"plan", "model", "hardware"}) {
    const JsonNode member = bundle.member(known);
    if (known == part) found = member;
  }
  bundle.finish();
  return found;
}

}  // namespace zplan
