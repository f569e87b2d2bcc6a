// The answer of `zplan sensitivity`: the shadow prices of a plan's step (planner/search/
// sensitivity.h), and for capacities of memory, which a step does not follow, the plan that the
// search finds with 5 % more. JSON schema "zplan.sensitivity/1".
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/frame/sheet.h"
#include "planner/search/sensitivity.h"

namespace zplan {

inline constexpr double kMoreMemory = 1.05;

// A tier with kMoreMemory times its memory.
struct TierQuestion {
  std::string_view quantity;  // "gpu.memory"
  TierUse use;                // of the plan
  // Of a plan from a file nothing more is asked.
  bool is_asked = false;
  bool is_short = false;        // of a short search: the tier is not nearly full
  std::optional<Seconds> step;  // of a faster plan that is found; nothing: there is none
  Bytes missing{0};             // of the tier as it is, for that plan; 0: none
};

struct PlanPrices {
  ChosenPlan chosen;
  Sensitivity found;
  std::vector<TierQuestion> tiers;
  bool is_checked = false;
};

// Nothing where no plan fits, and it has said so.
std::optional<PlanPrices> find_prices(const SensitivityCommand& command);

std::vector<TierQuestion> ask_for_memory(const SensitivityCommand& command,
                                         const ChosenPlan& chosen, Seconds step);

Sheet prices_sheet(const PlanPrices& prices);

}  // namespace zplan
