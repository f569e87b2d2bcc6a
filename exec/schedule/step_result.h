// What a training step gave.
#pragma once

#include <cstdint>
#include <optional>

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
  // Of it when no operation of the compute lane ran, mean over the ranks of this process. None
  // where the device alone knows.
  std::optional<Seconds> exposed;
};

// What data that is not trained on gave.
struct ValidationResult {
  std::int64_t step = 0;  // steps of the training before it
  double loss = 0;        // mean over its batches
  Seconds wall{0};        // of all of them
};

}  // namespace zplan::exec
