#include "planner/validate/record_refusals.h"

#include <algorithm>

#include "planner/core/json_edit.h"
#include "planner/validate/run_form.h"
#include "planner/validate/run_keys.h"

namespace zplan {
namespace {

bool is_one_of(const std::string& value, std::string_view words) {
  return is_among(parts_of(words), value);
}

// Facts that come to nothing beside the record's other counts: what concerns an exchange where none
// is, attention in all layers, a pipeline of one stage.
bool is_idle(const RunRecord& run, const RunKey& key, const std::string& value) {
  if (key.pointer == "/model/attention_layers") return value == std::to_string(run.model.layers);
  if (key.pointer == "/pipeline/flushes") return run.parallel.pp == 1;
  if (key.pointer == "/experts/shard_group") return value == std::to_string(copies_of_experts(run));
  if (key.pointer == "/overlap/shared_expert")
    return !run.model.shared_expert_ffn || !exchanges_experts(run);
  const bool of_exchange =
      key.pointer == "/overlap/exchange" || key.pointer == "/overlap/weight_gradients" ||
      key.pointer == "/experts/dispatcher" || key.pointer == "/experts/communication_sms";
  return of_exchange && !exchanges_experts(run);
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

std::string refused_by(const RunRecord& run, const RunKey& key) {
  if (key.told.empty() || key.use == RunKeyUse::kAside) return {};
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

std::vector<std::string> asides(const RunRecord& run) {
  std::vector<std::string> out;
  for (const RunKey& key : run_keys()) {
    if (key.use != RunKeyUse::kAside) continue;
    const std::string value = said(run, key.pointer);
    if (value.empty() || is_one_of(value, key.plain) || is_idle(run, key, value)) continue;
    out.emplace_back(key.told);
  }
  return out;
}

}  // namespace zplan
