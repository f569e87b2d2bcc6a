// What `zplan simulate --homes` adds: the homes of what is kept for backward that named methods and
// the planner choose for the plan, beside each other.
#pragma once

#include "planner/cli/frame/sheet.h"
#include "planner/search/homes/families.h"

namespace zplan {

Sheet homes_sheet(const HomesComparison& homes, std::size_t indent);

}  // namespace zplan
