// What was found in a configuration, as `check` and `export` show it.
#pragma once

#include <string_view>

#include "planner/cli/frame/sheet.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

// Under a title; nothing where nothing was found. `has_places`: the configuration is a file of the
// user's, of which the places are shown.
void say_findings(Sheet& out, std::string_view title, const Setup& setup, bool has_places);

}  // namespace zplan
