// What a training step gave.
#pragma once

#include "planner/core/units.h"

namespace zplan::exec {

struct StepResult {
  double loss = 0;           // mean over the tokens of the global batch, before the update
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the gradients were not finite: no parameter was changed by them
  double loss_scale = 1;     // that the gradients were computed with
  double dropped = 0;        // choices of experts beyond their capacity, of all layers
  double balance_loss = 0;   // the auxiliary loss of experts, which is not in `loss`
  Seconds wall{0};           // from the end of the previous step to the end of this one, all ranks
};

}  // namespace zplan::exec
