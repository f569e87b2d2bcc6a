// In which decisions two plans differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/decision.h"
#include "planner/plan/plan.h"

namespace zplan {

// As plan files and options have it: "4", "full", "layers:2", "13,11,12,12", "yes".
std::string setting_text(const Setting& setting);

struct DecisionChange {
  std::string_view pointer;  // of the row of choices.h
  std::string before, after;
};
// In the order of the rows, but for the names of the model and the hardware.
std::vector<DecisionChange> plan_difference(const Plan& before, const Plan& after);

// The plan with one decision as the other has it.
Plan with_decision(Plan plan, const Plan& other, std::string_view pointer);

}  // namespace zplan
