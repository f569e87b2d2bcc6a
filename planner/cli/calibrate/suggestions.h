// The answer of `zplan calibrate --suggest`: the plans that may be chosen, and which measurements
// would most likely change the choice (planner/certainty/suggest.h). JSON schema
// "zplan.suggestions/1".
#pragma once

#include <string>
#include <vector>

#include "planner/certainty/suggest.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/calibrate/benchmarks.h"

namespace zplan {

struct Contending {
  Plan plan;
  Seconds predicted{}, expected{};
  int fastest_in = 0;  // of kWorlds
};

struct Suggestion {
  Benchmark benchmark;
  MeasurementValue value;
  std::vector<std::string> tells;  // constants
  double uncertainty = 0;          // of its least known reading, as far as the constants go
};

struct Suggestions {
  Answer answer;                         // of the question; no contenders where nothing fits
  std::vector<Contending> contenders;    // those of the search first, fastest first
  std::size_t chosen = 0;                // of least expected time
  MeasurementValue perfect;              // of knowing everything
  std::vector<Suggestion> measurements;  // all, the most valuable first
};

Suggestions find_suggestions(const PlanCommand& question);

// Of the most valuable those that are worth a line.
std::vector<Suggestion> worth_telling(const Suggestions& suggestions);

Sheet suggestions_sheet(const Suggestions& suggestions);

}  // namespace zplan
