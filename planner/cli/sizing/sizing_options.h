// The command lines of the questions about sizes, nodes and failures.
#pragma once

#include <string>
#include <vector>

#include "planner/cli/frame/options.h"

namespace zplan {

Command parse_max(const std::vector<std::string>& arguments);
Command parse_goodput(const std::vector<std::string>& arguments);
Command parse_need(const std::vector<std::string>& arguments);

}  // namespace zplan
