// The question that a plan is an answer to: decisions that a search leaves as they are given. A
// search with these pins compares the plan with others that train the same thing.
#pragma once

#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

// Pins, as the plan has them, the decisions that no search varies (decision.h) and the formats of
// its states: those that change what is trained always; others, such as context parallelism, only
// where they are not plain, since somebody must have asked for them then. The names of the model
// and the hardware are not pinned: whoever asks gives both beside the pins.
Pins question_of(const Plan& plan);

}  // namespace zplan
