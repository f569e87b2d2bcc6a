// Writes what was fitted into the profiles of stacks and systems, as text: all else in a file stays
// as its author wrote it.
#pragma once

#include <string>

#include "tests/fit/least_squares.h"

namespace zplan::fit {

// As JSON, to three digits: more would claim what was not measured.
std::string written(double value, bool seconds);

// Into FOLDER/stacks/STACK.json and FOLDER/catalogue/hardware/systems.json. Values that no run of
// the problem concerns stay. Throws Error where a file cannot be read.
void write_profiles(const Problem& problem, const Solution& solution, const std::string& folder);

}  // namespace zplan::fit
