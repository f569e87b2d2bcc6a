// What the interval of a predicted step is made of: for each constant of the cost model its value,
// how well it is known and from where, how far the step follows it, and what it adds to each end.
#pragma once

#include "planner/certainty/knowledge.h"
#include "planner/cli/predict/prediction.h"
#include "planner/search/explanation.h"

namespace zplan {

// `kind`: of the plan; `evidence`: of the stack whose rates the cluster has.
void explain_interval(const TimePrediction& time, const Evidence& evidence, const HwProfile& node,
                      const Kind& kind, Explanations& out);

}  // namespace zplan
