// What runs of the user's own have changed (--anchor): for people, and as JSON that answers embed.
#pragma once

#include <string>
#include <vector>

#include "planner/validate/anchoring.h"

namespace zplan {

// A paragraph per run and an empty line; empty without runs.
std::string anchors_text(const std::vector<Anchor>& anchors);
// [{"run", "measured_s", "before_s", "after_s", "moved": [{"rate", "before", "after"}]}]
std::string anchors_json(const std::vector<Anchor>& anchors);

}  // namespace zplan
