// Upper bounds on the counts of the Job of a plan, in closed form and in doubles, so that they can
// be asked for before anything is counted in 64 bits. Only for refusing absurd sizes: generous by
// design (largest element type, no sharing of memory), and never an estimate.
#pragma once

#include "planner/plan/plan.h"

namespace zplan {

// Above the flop of every single operation.
double flops_bound(const Plan& plan, const ModelShape& model);

// Above the bytes of all buffers of all ranks together, hence of every operation's operands.
double total_bytes_bound(const Plan& plan, const ModelShape& model);

}  // namespace zplan
