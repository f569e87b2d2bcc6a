// Pins as a table: pointers of choices.h with their values as words, {"/parallel/tp", "2"}.
#pragma once

#include <initializer_list>
#include <utility>

#include "planner/plan/choice_text.h"

namespace zplan::testing_support {

inline Pins pinned(std::initializer_list<std::pair<const char*, const char*>> choices) {
  Pins pins;
  for (const auto& [pointer, text] : choices) pin_choice(pins, pointer, text);
  return pins;
}

}  // namespace zplan::testing_support
