// Decisions set by words, as the defaults of a stack give them: "true", "4", "cpu", "full".
#pragma once

#include <string_view>

#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

// `pointer`: that of a row of choices.h. Recomputation is one word for all layers. Throws Error
// when there is no such decision, when it is none of a single word, or when it has no such value.
void set_choice(Plan& plan, std::string_view pointer, std::string_view text);
// Sets a pin in the same way. A number of layers or tiles is pinned where it is said: by
// "layers:1", not by "layer".
void pin_choice(Pins& pins, std::string_view pointer, std::string_view text);

}  // namespace zplan
