// How explanations are shown: JSON schemas "zplan.explanation/1" and "zplan.explanations/1".
#pragma once

#include <string>

#include "planner/cli/frame/sheet.h"
#include "planner/search/explanation.h"

namespace zplan {

Sheet explanation_sheet(const Explanation& explanation);
// All: for people those without an index in their name, by formula; JSON has their terms, too.
// `kernel_set`: a sentence on the plan's.
Sheet explanations_sheet(const Explanations& all, const std::string& kernel_set);

}  // namespace zplan
