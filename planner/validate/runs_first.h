// Records of "zplan.runs/1": every record has exactly the keys that are read here, in any order,
// but for `software` and four members of it, which may be left out; null means that it does not
// apply or that the source does not say it, and is allowed wherever a member is optional. What its
// `source` and `recompute_detail` say in words of the software becomes keys (run_words.h).
#pragma once

#include "planner/core/json_reader.h"
#include "planner/validate/runs.h"

namespace zplan {

// Throws Error where it is none, or where its counts contradict each other.
RunRecord read_first_form(const JsonNode& root);

}  // namespace zplan
