// "zplan.bundle/1": a plan, its model and its hardware in one file, which means the same wherever
// it is read:
//   plan      "zplan.plan/1"
//   model     "zplan.model/1"
//   hardware  "zplan.cluster/1" or "/2" with its node, a "zplan.hw/1", in it
// Readers of these three take a bundle for what they look for in it.
#pragma once

#include <optional>
#include <string_view>

#include "planner/core/json_reader.h"

namespace zplan {

inline constexpr std::string_view kBundleTag = "zplan.bundle/1";

// The part of that name; nothing: the document is no bundle. Throws Error when one lacks a part, or
// has others.
std::optional<JsonNode> bundle_part(const JsonNode& root, std::string_view part);

}  // namespace zplan
