// The one-step delayed update of [Ren21 sec 5.2]: the host updates from the gradients of step i - 1
// while the GPU runs step i, which therefore trains on parameters that lack them. Step i holds its
// own gradients for step i + 1 and takes over the new parameters at its end. The first step has no
// gradients to update from: the step scalars say so (step_scalars.h).
#pragma once

#include "planner/lower/gradients.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"
#include "planner/lower/transfers.h"

namespace zplan {

class DelayedUpdate {
 public:
  DelayedUpdate(Stage& stage, const Parameters& parameters, const Gradients& gradients);

  // On the host: gradients of the last step, new parameters until the end of this one.
  View gradient(UnitIndex unit) const;
  View target(UnitIndex unit) const;
  // Keep this step's gradients; let the new parameters go home.
  void hold(UnitIndex unit);
  void publish(UnitIndex unit, Ordinal ordinal);

 private:
  View slot(const std::vector<BufferId>& buffers, UnitIndex unit, const View& like) const;

  Stage& s_;
  const Parameters& parameters_;
  const Gradients& gradients_;
  Transfers transfers_;
  std::vector<BufferId> held_, next_;
};

}  // namespace zplan
