// The states that AdamW keeps of each unit: master copy and two moments, and where the recipe has
// it the optimizer's copy of the gradients.
#pragma once

#include <array>
#include <optional>

#include "planner/lower/declared.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"
#include "planner/lower/transfers.h"

namespace zplan {

// What the bytes of the optimizer's states follow.
struct OptimizerBuffers {
  enum State : std::uint8_t { kMaster, kMoment1, kMoment2, kMainGradient };
  static constexpr std::size_t kStates = 4;

  explicit OptimizerBuffers(const Plan& plan);

  DType master, moments;
  std::int32_t shards;                             // ranks that share a home; 1: each rank has all
  std::array<std::optional<Tier>, kStates> tiers;  // nothing: the plan does not have the state

  DType dtype(State state) const { return state == kMaster ? master : moments; }
  Declared home(const Layout& layout, UnitIndex unit, State state) const;
  void declare(const Layout& layout, const Declare& declare) const;

  friend auto operator<=>(const OptimizerBuffers&, const OptimizerBuffers&) = default;
};

class OptimizerStates {
 public:
  using State = OptimizerBuffers::State;
  using enum OptimizerBuffers::State;

  explicit OptimizerStates(Stage& stage);

  // Whether the plan has the state.
  bool has(State state) const { return buffers_.tiers[state].has_value(); }
  View view(UnitIndex unit, State state) const;
  StateHome home(UnitIndex unit, State state) const;
  // For pieces on their way from the state's home to where it is updated, and back.
  Ring ring(State state) const;
  // Elements of a unit that this rank updates.
  std::int64_t elements(UnitIndex unit) const;

 private:
  bool sharded() const { return s_.plan.zero_stage >= 1; }

  Stage& s_;
  const OptimizerBuffers buffers_;
  std::array<std::vector<BufferId>, OptimizerBuffers::kStates> homes_;
};

}  // namespace zplan
