// How well a group of runs is foretold whose software took no part in a fit: its error, how often
// its times lie within their interval, and the error left once one of its runs is known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/fit/least_squares.h"

namespace zplan::fit {

struct BlindRun {
  std::string id, group, stack;
  double error = 0;          // predicted / measured - 1
  double low = 0, high = 0;  // of the interval, over the prediction
  bool known_stack = false;  // runs of its stack took part in the fit
  bool within = false;
  // Absolute, mean over the other runs once this one is known; of some runs, evenly spread.
  std::optional<double> anchored_error{};
};

// `fitted`: the problem without the group, and its solution. `group`: its runs alone.
std::vector<BlindRun> foretell(const Problem& fitted, const Solution& solution,
                               const Problem& group);

std::string to_json(const std::vector<BlindRun>& runs);

}  // namespace zplan::fit
