// A leaf on its way up the rungs of the search.
#pragma once

#include <tuple>

#include "planner/search/search.h"
#include "planner/search/simplicity.h"

namespace zplan {

// Between an estimate and a fit what the plan sends is weighed, where an Evaluator knows it.
enum class Rung { kEnumerated, kEstimated, kWeighed, kFitted, kSimulated };

struct Leaf {
  Candidate candidate;
  std::size_t place = 0;  // in the space; of plans outside, after all of it
  Rung rung = Rung::kEnumerated;
  Bytes gpu{0};            // from kFitted on
  bool is_exact = false;   // from kSimulated on: the step is not only within the tolerance
  bool set_aside = false;  // fits with its states closer to the GPU, too (siblings.h)

  bool out() const { return candidate.infeasible.has_value(); }
  // The least time it may turn out to take.
  Seconds value() const { return candidate.step.value_or(candidate.bound); }
};

// Each takes the leaf one rung up.
void estimate(Leaf& leaf, const Evaluator& evaluator);
// The bound may rise with it.
void weigh(Leaf& leaf, const Evaluator& evaluator);
void fit(Leaf& leaf, const Evaluator& evaluator);
void simulate(Leaf& leaf, const Evaluator& evaluator);
// Replaces the time of a simulated leaf by the exact one.
void settle(Leaf& leaf, const Evaluator& evaluator);

// Of two plans about as fast the one with the lesser key is preferred: the simpler one, then the
// one with less GPU memory, then the first.
using TieKey = std::tuple<Simplicity, std::int64_t, std::size_t>;
TieKey tie_key(const Leaf& leaf);

}  // namespace zplan
