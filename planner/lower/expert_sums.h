// What a step says of its experts besides the loss: choices that were dropped, and the auxiliary
// loss. Each rank adds up what its layers give; the sums over all ranks are reported. Tensor
// parallel ranks count the same drops each, and have a part of the auxiliary loss; those that route
// their own tokens count the drops of these.
#pragma once

#include "planner/lower/stage.h"

namespace zplan {

class ExpertSums {
 public:
  // `has`: the model has experts. What is emitted after this may add to Stage::expert_sums.
  ExpertSums(Stage& stage, bool has);

  bool has() const { return has_; }
  void begin_step();
  // On the host of the last stage, when all ranks have added theirs.
  void finish();
  View on_host() const { return host_; }  // [2] f64

 private:
  Stage& s_;
  bool has_;
  View host_{};
};

}  // namespace zplan
