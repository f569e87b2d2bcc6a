// Where the time of a step goes (sim/step_split.h), as it is shown: parts whose percentages add up
// to 100.0 as they are printed.
#pragma once

#include <string>

#include "planner/cli/frame/sheet.h"
#include "sim/step_split.h"

namespace zplan {

// {"stage", "step_s", "parts": [{"part", "name", "time_s", "share", "percent"}]}. The words: a
// table that starts with `indent` spaces, without parts that take no time.
Sheet step_split_sheet(const sim::StepSplit& split, std::size_t indent);

// "matrix products 61.3 %, attention 10.2 %, .. = 100 % of the step", the greatest first.
std::string split_line(const sim::StepSplit& split);

// What takes most of the step: "compute", or what the compute lane waits for, "data parallel
// communication".
std::string limit_of(const sim::StepSplit& split);

}  // namespace zplan
