// The states that AdamW keeps of each unit: master copy and two moments, and where the recipe has
// it the optimizer's copy of the gradients.
#pragma once

#include <array>

#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"
#include "planner/lower/transfers.h"

namespace zplan {

class OptimizerStates {
 public:
  enum State : std::uint8_t { kMaster, kMoment1, kMoment2, kMainGradient };
  static constexpr std::size_t kStates = 4;

  explicit OptimizerStates(Stage& stage);

  // Whether the plan has the state.
  bool has(State state) const;
  View view(UnitIndex unit, State state) const;
  StateHome home(UnitIndex unit, State state) const;
  // For pieces on their way from the state's home to where it is updated, and back.
  Ring ring(State state) const;
  // Elements of a unit that this rank updates.
  std::int64_t elements(UnitIndex unit) const;

 private:
  bool sharded() const { return s_.plan.zero_stage >= 1; }
  Tier tier(State state) const;
  DType dtype(State state) const;

  Stage& s_;
  std::array<std::vector<BufferId>, kStates> buffers_;
};

}  // namespace zplan
