// This finds what a record states and no plan, model or rate expresses, by the table of its keys
// (run_keys.h). Nothing is read as something else: such a record has no plan.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/validate/runs.h"

namespace zplan {

using Reason = std::optional<std::string>;

// "not modelled: Mamba layers"; of several the first key's.
Reason unmodelled(const RunRecord& run);
// Facts that change kernels which the cost model does not tell apart, in words.
std::vector<std::string> asides(const RunRecord& run);
// Returns true if experts are on other ranks than those that have their tokens.
bool exchanges_experts(const RunRecord& run);

// Ranks that have the same experts.
std::int64_t copies_of_experts(const RunRecord& run);
bool is_among(const std::vector<std::string>& words, std::string_view word);
inline std::string not_modelled(const std::string& what) { return "not modelled: " + what; }

}  // namespace zplan
