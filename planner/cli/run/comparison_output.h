// A predicted and a measured timeline beside each other, as compare and report show them.
#pragma once

#include <string>
#include <string_view>

#include "planner/cli/frame/sheet.h"
#include "planner/program/timeline/comparison.h"

namespace zplan {

// JSON schema "zplan.comparison/1".
Sheet comparison_sheet(const Comparison& comparison);

// "1.25": measured over predicted, as runs and comparisons of timelines show it; null where nothing
// was predicted.
Value ratio_value(Seconds predicted, Seconds measured);

// `source`: "sim" or "exec"; throws Error where the file is the other.
Timeline read_timeline(const std::string& path, std::string_view source);

}  // namespace zplan
