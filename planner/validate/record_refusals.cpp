#include "planner/validate/record_refusals.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/json_edit.h"
#include "planner/validate/run_form.h"
#include "planner/validate/run_keys.h"

namespace zplan {
namespace {

bool is_one_of(const std::string& value, std::string_view words) {
  return is_among(parts_of(words), value);
}

bool is_idle(const RunRecord& run, const RunKey& key, const std::string& value) {
  return key.idle != nullptr && key.idle(run, value);
}

// Returns what a word is called in `told`, "lion=optimizer lion|.."; empty: the word is modelled.
std::string refused_word(const RunKey& key, const std::string& value) {
  for (const std::string& part : parts_of(key.told)) {
    const std::size_t equals = part.find('=');
    if (equals != part.npos && json_string(part.substr(0, equals)) == value)
      return part.substr(equals + 1);
  }
  return {};
}

bool flags(RunKeyUse use) { return use == RunKeyUse::kAside || use == RunKeyUse::kFlagged; }

std::string refused_by(const RunRecord& run, const RunKey& key) {
  if (key.told.empty() || flags(key.use)) return {};
  const std::string value = said(run, key.pointer);
  if (value.empty() || is_idle(run, key, value)) return {};
  if (key.use != RunKeyUse::kUnmodelled) return refused_word(key, value);
  return is_one_of(value, key.plain) ? std::string() : std::string(key.told);
}

}  // namespace

bool is_among(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::int64_t copies_of_experts(const RunRecord& run) {
  const RunParallel& p = run.parallel;
  const std::int64_t across = p.ep.value_or(1) * run.experts.tp.value_or(p.tp);
  return std::int64_t{p.dp} * p.cp.value_or(1) * p.tp / std::max<std::int64_t>(1, across);
}

bool exchanges_experts(const RunRecord& run) {
  return run.model.experts && run.parallel.ep.value_or(1) > 1;
}

std::int32_t ring_of(const RunParallel& parallel) {
  if (parallel.ring) return *parallel.ring;
  const auto& how = parallel.cp_communication;
  return how == "ulysses" || how == "a2a" ? 1 : parallel.cp.value_or(1);
}

std::string wrong_about_domain(const RunRecord& run, std::int64_t domain) {
  const std::string inside = said(run, "/experts/in_nvlink_domain");
  if (inside.empty()) return {};
  const std::int64_t together =
      run.parallel.ep.value_or(1) * std::int64_t{run.experts.tp.value_or(run.parallel.tp)};
  if ((inside == "true") == (together <= domain)) return {};
  return fmt::format("{}: {} ranks share the experts, {} GPUs the peer link", together <= domain,
                     together, domain);
}

// A refusal names what the model is before it names words of single keys.
Reason unmodelled(const RunRecord& run) {
  for (const bool facts : {true, false}) {
    for (const RunKey& key : run_keys()) {
      if ((key.use == RunKeyUse::kUnmodelled) != facts) continue;
      if (const std::string what = refused_by(run, key); !what.empty()) return not_modelled(what);
    }
  }
  return std::nullopt;
}

std::vector<std::string> flagged_facts(const RunRecord& run, RunKeyUse use) {
  std::vector<std::string> out;
  for (const RunKey& key : run_keys()) {
    if (key.use != use) continue;
    const std::string value = said(run, key.pointer);
    if (value.empty() || is_one_of(value, key.plain) || is_idle(run, key, value)) continue;
    out.emplace_back(key.told);
  }
  return out;
}

}  // namespace zplan
