// Every decision of a Plan, a row each, in the order of plan files; decision.h says what a row is
// good for. A new switch needs the member of Plan, its row in choice_rows.cpp, and the code in
// planner/lower that obeys it; where not every plan can have it, a rule in legality.cpp.
#pragma once

#include "planner/plan/decision.h"

namespace zplan {

inline constexpr std::size_t kChoiceCount = 74;
extern const Decision kChoices[kChoiceCount];

// Those that multiply the ranks, as "dp 4 x tp 2 x pp 1"; optional ones where they are not plain.
std::string ranks_words(const Plan& plan);

// The row of a pointer that exists.
const Decision& decision(std::string_view pointer);

}  // namespace zplan
