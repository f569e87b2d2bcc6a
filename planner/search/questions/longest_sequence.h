// The longest sequence with which some plan of the space fits: doubling from 1,024 tokens, then
// bisection to a multiple of 1,024; where not even those fit, multiples of 128. The batch stays as
// many sequences as it is, so a step has the more tokens. Time plays no part.
//
// Exact: that a plan fits with the sequence found, and that none does with the next longer one.
// Assumed: that none does with those beyond. Learned positions bound the sequence of a model,
// rotary ones do not: whether it still learns anything there is another question.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/search/questions/objective.h"
#include "planner/search/search.h"

namespace zplan {

struct LongestSequence {
  std::int64_t tokens = 0;           // 0: no plan fits with any
  std::int64_t too_long = 0;         // the next longer one; 0: `most` fits
  std::optional<Infeasible> misfit;  // there, where a plan is legal
  std::string why;                   // there is none, where not
  std::int64_t most = 0;             // that is possible at all: learned positions, or limits.h
  std::int64_t positions = 0;        // learned ones of the model; 0: none
  int tried = 0;
  bool interrupted = false;  // at least as long
};
LongestSequence longest_sequence(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                                 const QuestionRun& run);

}  // namespace zplan
