// Anchors: what measured runs of one's own teach of a stack's constants. With the uncertainties of
// Knowledge as the prior, a run that took log_error more than predicted moves each constant in
// proportion to how much it may explain of it (the Kalman gain), and leaves all less uncertain.
// One-sided constants have the variance of their half-normal and start from the prediction, which
// is their likeliest value: a run that took what was predicted moves nothing.
//
// What the hardware leaves open counts as a part of the overall factor here, so that all that is
// learnt stays within the stack's rates. Linear in the logarithms: whoever simulates again with
// the new rates, and adds the run once more from the same prior, comes closer (Gauss-Newton).
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/stack.h"
#include "planner/certainty/knowledge.h"

namespace zplan {

struct AnchorRun {
  double log_error = 0;           // log(measured / predicted) with the rates of the prior
  std::vector<double> reliances;  // by Constant
};

// The knowledge after the run; its means are to be moved into the rates by `move_rates`.
Knowledge anchored(const Knowledge& prior, const AnchorRun& run);

struct MovedRate {
  std::string name;
  double before = 0, after = 0;
};
// Moves the means of the stack's rates into `rates`, within what a rate may be, and says which
// moved.
std::vector<MovedRate> move_rates(Knowledge& knowledge, StackRates& rates);

// What the run teaches of the stack: `learnt` is the knowledge after it, with its means moved into
// `rates`, and the run's kind is no longer unknown.
void learn(Evidence& evidence, const Knowledge& learnt, const StackRates& rates, const Kind& kind);

}  // namespace zplan
