// What Adafactor [Shazeer18] goes down, of a unit that ranks may share: each has a piece of the
// gradients and parameters, all have the means of squares of the unit's rows and columns
// (factored_moments.h), which they move alike.
//   1. the clipped gradient, in the type of statistics;
//   2. of each tensor the squares of the rank's part by row and column, and those of the
//      parameters; all ranks' are added up;
//   3. the means move, and divide; the squares of what comes out, of each tensor, are added up;
//   4. each tensor's part is scaled.
// So a unit costs two all-reduces, of rows + columns + 1 and of one number for each tensor, f64.
#pragma once

#include "planner/lower/factored_moments.h"
#include "planner/lower/stage.h"

namespace zplan {

class Adafactor {
 public:
  // Works where the states of the unit are updated.
  Adafactor(Stage& stage, UnitIndex unit, Lane lane, Tier tier);

  struct Inputs {
    View moments;           // [factored_moments]
    View master, gradient;  // [piece]
    View scalars, clip;
    Attributes place;  // of the piece, as kernels of updates take it
    Ordinal ordinal;   // among the units that are updated
  };
  // [piece]; learning rate times it is the step.
  View update_of(const Inputs& in);

 private:
  View buffer(const char* name, DType dtype, std::int64_t elements, Ordinal ordinal);
  Attributes place_of(const FactoredTensor& tensor, Attribute first) const;
  template <typename Emit>
  void each_tensor(const Emit& emit);
  void add_up(Action action, const View& sums);
  Role role(Action action) const { return {Phase::kUpdate, s_.layout.part[unit_], action}; }

  Stage& s_;
  UnitIndex unit_;
  Lane lane_;
  Tier tier_;
  std::vector<FactoredTensor> tensors_;
};

}  // namespace zplan
