// This finds what a record states and no plan, model or rate expresses, by the table of its keys
// (run_keys.h). Nothing is read as something else: such a record has no plan.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/validate/run_keys.h"
#include "planner/validate/runs.h"

namespace zplan {

using Reason = std::optional<std::string>;

// "not modelled: Mamba layers"; of several the first key's.
Reason unmodelled(const RunRecord& run);
// Returns in words what keys of such a use, kAside or kFlagged, say and the plan leaves out.
std::vector<std::string> flagged_facts(const RunRecord& run, RunKeyUse use);
// Returns true if experts are on other ranks than those that have their tokens.
bool exchanges_experts(const RunRecord& run);

// Ranks that have the same experts.
std::int64_t copies_of_experts(const RunRecord& run);
// Ranks of a ring of context parallel ones: all of them unless the record says more [MegatronCore].
std::int32_t ring_of(const RunParallel& parallel);
// Returns what /experts/in_nvlink_domain has to be where so many GPUs share the peer link; empty:
// it is that, or the record does not say it.
std::string wrong_about_domain(const RunRecord& run, std::int64_t domain);
bool is_among(const std::vector<std::string>& words, std::string_view word);
inline std::string not_modelled(const std::string& what) { return "not modelled: " + what; }

}  // namespace zplan
