// In what a plan lies outside the space of the search, which is all that the gap and the proof
// speak of (search.h): the decisions that are neither pinned as they are nor ones that leaves and
// their variants have. Slack is none of them: a leaf has its own, or 0 where only the tightest
// fits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

struct OutsideSpace {
  std::string_view pointer;  // "/parallel/stage_layers"
  std::string_view words;    // "uneven stages"
};
// In the order of the rows of choices.h; empty: the plan is one of the space.
std::vector<OutsideSpace> outside_space(const Plan& plan, const Pins& pins);

// "uneven stages, layers per checkpoint"
std::string words_of(const std::vector<OutsideSpace>& outside);

}  // namespace zplan
