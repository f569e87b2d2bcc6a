#include "planner/plan/plan_difference.h"

#include <fmt/format.h>

#include <type_traits>
#include <variant>

#include "planner/core/text.h"
#include "planner/plan/choices.h"

namespace zplan {
namespace {

std::string run_text(const RecomputeRun& run) {
  const std::string words =
      run.mode == Recompute::kOperators ? joined(words_of(run), "+") : std::string(name(run.mode));
  return run.layers > 0 ? fmt::format("{}:{}", words, run.layers) : words;
}

}  // namespace

std::string setting_text(const Setting& setting) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "yes" : "no";
        } else if constexpr (std::is_same_v<T, Gather>) {
          return name(value);
        } else if constexpr (std::is_same_v<T, std::vector<std::int32_t>>) {
          return joined(value, ",");
        } else if constexpr (std::is_same_v<T, std::vector<RecomputeRun>>) {
          std::vector<std::string> runs;
          for (const RecomputeRun& run : value) runs.push_back(run_text(run));
          return joined(runs, ",");
        } else {
          return fmt::format("{}", value);
        }
      },
      setting);
}

std::vector<DecisionChange> plan_difference(const Plan& before, const Plan& after) {
  std::vector<DecisionChange> changes;
  for (const Decision& row : kChoices) {
    if (row.pointer == "/model" || row.pointer == "/hardware") continue;
    const Setting was = row.field.get(before), is = row.field.get(after);
    if (was != is) changes.push_back({row.pointer, setting_text(was), setting_text(is)});
  }
  return changes;
}

Plan with_decision(Plan plan, const Plan& other, std::string_view pointer) {
  const Decision& row = decision(pointer);
  row.field.set(plan, row.field.get(other));
  return plan;
}

}  // namespace zplan
