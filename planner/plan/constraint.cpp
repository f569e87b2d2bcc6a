#include "planner/plan/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/plan/choice_text.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_difference.h"

namespace zplan {
namespace {

bool has_tier(const Plan& plan, Tier tier) {
  if (tier == Tier::kCpu && plan.offload.any()) return true;
  const std::vector<Tier> tiers = plan.placement.tiers();
  if (std::find(tiers.begin(), tiers.end(), tier) != tiers.end()) return true;
  return std::any_of(plan.recompute.begin(), plan.recompute.end(), [&](const RecomputeRun& run) {
    return !(tier == Tier::kCpu ? run.on_cpu : run.on_nvme).empty();
  });
}

bool recomputes(const Plan& plan) {
  return std::any_of(plan.recompute.begin(), plan.recompute.end(), [&](const RecomputeRun& run) {
    return plan.effective(run.mode) != Recompute::kNone;
  });
}

// Returns whether some layers recompute or offload operator by operator.
bool names_operators(const Plan& plan) {
  return std::ranges::any_of(
      plan.recompute, [](const RecomputeRun& run) { return run.mode == Recompute::kOperators; });
}

struct NamedTrait {
  std::string_view name;
  bool (*holds)(const Plan& plan);
};
constexpr NamedTrait kTraits[] = {
    {"offload",
     [](const Plan& plan) { return has_tier(plan, Tier::kCpu) || has_tier(plan, Tier::kNvme); }},
    {"cpu", [](const Plan& plan) { return has_tier(plan, Tier::kCpu); }},
    {"nvme", [](const Plan& plan) { return has_tier(plan, Tier::kNvme); }},
    {"recomputation", recomputes},
    {"tensor", [](const Plan& plan) { return plan.parallel.tp > 1; }},
    {"pipeline", [](const Plan& plan) { return plan.parallel.pp > 1; }},
    {"data", [](const Plan& plan) { return plan.parallel.dp > 1; }},
    {"operators", names_operators},
    {"layer-mix", [](const Plan& plan) { return plan.recompute.size() > 1; }},
    {"sharding", [](const Plan& plan) { return plan.zero_stage > 0; }},
    {"tiles", [](const Plan& plan) { return plan.gather.tiles() > 1; }},
};

// "zero" of "--zero".
std::string_view name_of(const Decision& row) {
  return row.option.name.empty() ? std::string_view{} : row.option.name.substr(2);
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const NamedTrait& trait : kTraits) names.emplace_back(trait.name);
  for (const Decision& row : kChoices)
    if (!name_of(row).empty()) names.emplace_back(name_of(row));
  return names;
}

[[noreturn]] void fail(std::string_view option, std::string_view typed,
                       const std::string& expected) {
  throw_bad_input(fmt::format("{}: expected {}, got {}", option, expected, in_quotes(typed)));
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "4", or all of "2..8".
std::vector<std::string> values_of(const Decision& row, std::string_view text,
                                   std::string_view option) {
  constexpr std::int64_t kMostValues = 10'000;
  if (const std::size_t dots = text.find(".."); dots != text.npos) {
    const auto from = whole(text.substr(0, dots)), to = whole(text.substr(dots + 2));
    if (!from || !to || *from > *to || *to - *from > kMostValues)
      fail(option, text, "a range of whole numbers such as 2..8");
    std::vector<std::string> values;
    for (std::int64_t value = *from; value <= *to; ++value) values.push_back(std::to_string(value));
    return values;
  }
  const std::string_view word = text == "yes" ? "true" : text == "no" ? "false" : text;
  Plan plan;
  try {
    set_choice(plan, row.pointer, word);
  } catch (const Error& error) {  // "decision /zero_stage: expected .."
    const std::string_view why = error.what();
    throw_bad_input(fmt::format("{} {}{}", option, name_of(row), why.substr(why.find(": "))));
  }
  return {setting_text(row.field.get(plan))};
}

}  // namespace

Constraint Constraint::only(const std::string& typed) { return {typed, true}; }

Constraint Constraint::never(const std::string& typed) { return {typed, false}; }

Constraint::Constraint(const std::string& typed, bool only) : typed_(typed), only_(only) {
  const std::string_view option = only ? "--only" : "--not";
  const std::size_t equals = typed.find('=');
  const std::string name = typed.substr(0, equals);
  if (equals == typed.npos) {
    for (const NamedTrait& trait : kTraits)
      if (trait.name == name) {
        what_ = trait.holds;
        return;
      }
  }
  const Decision* const row =
      std::find_if(std::begin(kChoices), std::end(kChoices),
                   [&](const Decision& r) { return !name.empty() && name_of(r) == name; });
  if (row == std::end(kChoices) || equals == typed.npos)
    throw_bad_input(
        fmt::format("{}: expected a decision and its values such as zero=2,3, or a trait such as "
                    "offload, got {}{}",
                    option, in_quotes(typed), did_you_mean(name, known_names())));
  if (only && row->varied != Varied::kSpace)
    throw_bad_input(fmt::format("--only {}: the search {} it; {} pins it", name,
                                row->varied == Varied::kTuned ? "tunes" : "does not vary",
                                row->option.name));
  OneOf one{row, {}};
  std::string_view rest = std::string_view(typed).substr(equals + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view value = rest.substr(0, comma);
    if (value.empty()) fail(option, typed, fmt::format("values of {} after \"=\"", name));
    for (std::string& word : values_of(*row, value, option)) one.values.push_back(std::move(word));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  what_ = std::move(one);
}

bool Constraint::holds(const Plan& plan) const {
  if (const Trait* const trait = std::get_if<Trait>(&what_)) return (*trait)(plan);
  const auto& [row, values] = std::get<OneOf>(what_);
  const std::string own = setting_text(row->field.get(plan));
  return std::find(values.begin(), values.end(), own) != values.end();
}

std::string Constraint::option() const {
  return fmt::format("{} {}", only_ ? "--only" : "--not", typed_);
}

}  // namespace zplan
