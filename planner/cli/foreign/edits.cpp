#include "planner/cli/foreign/edits.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "planner/core/json_edit.h"
#include "planner/foreign/frameworks/key_place.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_difference.h"

namespace zplan {
namespace {

using Keys = std::map<std::string, std::string>;

Keys keys_of(const Framework& framework, const Plan& plan, const ModelConfig& model) {
  Keys out;
  for (KeyValue& each : framework.keys(plan, model)) out[each.key] = std::move(each.value);
  return out;
}

// "zero_optimization.stage = 3", "--num-layers 2", of a switch "--bf16".
std::string setting_words(const KeyPlace& at, const std::string& key, const std::string& value) {
  if (!at.in_command) return fmt::format("{} = {}", key, value);
  if (value == "true") return key;
  const bool is_word = value.size() > 1 && value.front() == '"';
  return fmt::format("{} {}", key, is_word ? value.substr(1, value.size() - 2) : value);
}

std::string edit_words(const KeyEdit& edit, const KeyPlace& at) {
  const std::string& key = at.in_command ? at.key : edit.key;
  if (edit.kind == EditKind::kRemove) return "remove " + key;
  if (edit.kind == EditKind::kChange) return setting_words(at, key, edit.after);
  const std::string to = at.in_command     ? "to the command"
                         : at.path.empty() ? "to the file"
                                           : "to " + at.path;
  return fmt::format("add {} {}", setting_words(at, at.key, edit.after), to);
}

// The Trainer fills in what DeepSpeed's file leaves to it: its own keys are edited.
bool is_filled_in(const std::string& key, const KeyPlace& at) {
  constexpr std::string_view kDeepSpeed = "deepspeed.", kItsOwn = "deepspeed.zero_optimization.";
  return key.starts_with(kDeepSpeed) && !key.starts_with(kItsOwn) && at.value &&
         at.value->is_string() && at.value->string() == "auto";
}

// `after`: empty: not there. Nothing where the configuration is already so.
std::optional<KeyEdit> edit_of(const JsonNode& root, const std::string& key,
                               const std::string& after) {
  const KeyPlace at = find_place(root, key);
  if (is_filled_in(key, at)) return std::nullopt;
  KeyEdit edit{.key = key, .before = at.value ? json_text(*at.value) : "", .after = after};
  if (edit.before == edit.after) return std::nullopt;
  edit.kind = after.empty()          ? EditKind::kRemove
              : at.value.has_value() ? EditKind::kChange
                                     : EditKind::kAdd;
  edit.place = (at.value ? *at.value : at.object).location();
  if (edit.kind == EditKind::kAdd) edit.object = at.path;
  edit.words = edit_words(edit, at);
  return edit;
}

// A decision that no key says and that the training script is told.
std::optional<KeyEdit> told_of(const DecisionChange& change, const Plan& before,
                               const Plan& after) {
  KeyEdit edit{.kind = EditKind::kScript,
               .key = std::string(change.pointer.substr(change.pointer.rfind('/') + 1)),
               .before = change.before,
               .after = change.after};
  if (change.pointer == "/recompute") {
    edit.key = "gradient_checkpointing";
    edit.before = before.all_full() ? "true" : "false";
    edit.after = after.all_full() ? "true" : "false";
  }
  if (edit.before == edit.after) return std::nullopt;
  edit.words = fmt::format("{} = {} in the training script", edit.key, edit.after);
  return edit;
}

class Edits {
 public:
  Edits(const Framework& framework, const JsonNode& root, const Surroundings& around,
        const Plan& before, const Plan& after)
      : framework_(framework), root_(root), around_(around), before_(before), after_(after) {}

  // Of the keys that differ between the plans; where these do not make it, of others that the
  // configuration has, too, as far as they are needed.
  std::optional<std::vector<KeyEdit>> find() {
    const Keys was = keys_of(framework_, before_, around_.model),
               is = keys_of(framework_, after_, around_.model);
    std::vector<KeyEdit> edits, others;
    for (const auto& [key, value] : is) {
      const auto old = was.find(key);
      const bool differs = old == was.end() || old->second != value;
      if (differs || find_place(root_, key).value) add(key, value, differs ? edits : others);
    }
    for (const auto& [key, value] : was)
      if (!is.contains(key)) add(key, "", edits);
    for (const DecisionChange& change : plan_difference(before_, after_))
      if (framework_.said(after_).has(change.pointer) && !has_key_for(change, was))
        if (auto told = told_of(change, before_, after_)) edits.push_back(std::move(*told));
    if (comes_to(edits)) return edits;
    return with_needed(std::move(edits), others);
  }

 private:
  void add(const std::string& key, const std::string& value, std::vector<KeyEdit>& to) const {
    if (auto edit = edit_of(root_, key, value)) to.push_back(std::move(*edit));
  }

  // All that are needed of the others; nothing where they do not suffice.
  std::optional<std::vector<KeyEdit>> with_needed(std::vector<KeyEdit> edits,
                                                  const std::vector<KeyEdit>& others) const {
    const std::size_t first = edits.size();
    edits.insert(edits.end(), others.begin(), others.end());
    if (!comes_to(edits)) return std::nullopt;
    for (std::size_t last = edits.size(); last > first; --last) {
      std::vector<KeyEdit> fewer = edits;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(last) - 1);
      if (comes_to(fewer)) edits = std::move(fewer);
    }
    return edits;
  }

  bool has_key_for(const DecisionChange& change, const Keys& was) const {
    const Plan other = with_decision(before_, after_, change.pointer);
    return keys_of(framework_, other, around_.model) != was;
  }

  // With a training script that does what it is told of the plan.
  bool comes_to(const std::vector<KeyEdit>& edits) const {
    Surroundings around = around_;
    const Pins said = framework_.said(after_);
    for (const Decision& row : kChoices)
      if (said.has(row.pointer)) around.asked.set_setting(row, row.field.get(after_));
    JsonNode edited = with_named_file(root_);
    for (const KeyEdit& edit : edits)
      if (edit.kind != EditKind::kScript) edited = with_key(edited, edit.key, edit.after);
    return plan_difference(framework_.read(edited, around).plan, after_).empty();
  }

  const Framework& framework_;
  const JsonNode& root_;
  const Surroundings& around_;
  const Plan &before_, &after_;
};

}  // namespace

std::string_view name(EditKind kind) {
  constexpr std::string_view kNames[] = {"change", "add", "remove", "script"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<std::vector<KeyEdit>> edits_to(const Framework& framework, const JsonNode& root,
                                             const Surroundings& around, const Plan& before,
                                             const Plan& after) {
  return Edits(framework, root, around, before, after).find();
}

}  // namespace zplan
