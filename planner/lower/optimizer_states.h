// The states that the optimizer keeps of each unit: master copy, the moments that the unit's rule
// of updating has and, where they are in blocks, their scales, or what it factors in their place;
// where the recipe has it the optimizer's copy of the gradients.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "planner/lower/declared.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"
#include "planner/lower/state_homes.h"
#include "planner/lower/transfers.h"

namespace zplan {

// What the bytes of the optimizer's states follow, besides the rules of the layout.
struct OptimizerBuffers {
  enum State : std::uint8_t { kMaster, kMoment1, kMoment2, kScale1, kScale2, kMainGradient };
  static constexpr std::size_t kStates = 6;

  explicit OptimizerBuffers(const Plan& plan);

  DType master, moments, scales;
  std::int32_t block;                              // elements that share a scale
  std::int32_t shards;                             // ranks that share a home; 1: each rank has all
  std::array<std::optional<Tier>, kStates> tiers;  // nothing: the plan does not have the state
  StateTiers homes;                                // of what is not offloaded by itself

  bool has(const UpdateRule& rule, State state) const;
  // Whether the state is factored_moments.h's, kept whole by each rank.
  static bool is_factored(const UpdateRule& rule, State state) {
    return rule.factored && state == kMoment2;
  }
  DType dtype(const UpdateRule& rule, State state) const;
  // Elements of a unit that one element of the state is of.
  std::int32_t every(State state) const { return state == kScale1 || state == kScale2 ? block : 1; }
  // As if all had the farther one.
  Declared home(const Layout& layout, UnitIndex unit, State state) const;
  void declare(const Layout& layout, const Declare& declare) const;

  friend auto operator<=>(const OptimizerBuffers&, const OptimizerBuffers&) = default;

 private:
  Declared factored_home(const Layout& layout, UnitIndex unit, const std::string& prefix,
                         Tier tier) const;
};

class OptimizerStates {
 public:
  using State = OptimizerBuffers::State;
  using enum OptimizerBuffers::State;

  explicit OptimizerStates(Stage& stage);

  // Whether the plan has the state, and whether it has it of the unit.
  bool has(State state) const { return buffers_.tiers[state].has_value(); }
  bool has(UnitIndex unit, State state) const {
    return s_.layout.trained[unit] && buffers_.has(s_.layout.rule[unit], state);
  }
  bool is_factored(UnitIndex unit, State state) const {
    return OptimizerBuffers::is_factored(s_.layout.rule[unit], state);
  }
  View view(UnitIndex unit, State state) const;
  Tier tier(UnitIndex unit) const;  // of what is not offloaded by itself
  // Of one that is not factored.
  StateHome home(UnitIndex unit, State state) const;
  // For pieces on their way from the state's home to where it is updated, and back.
  Ring ring(UnitIndex unit, State state) const;
  // Whether a unit on its way to and from NVMe shares its memory with no other unit, nor with a
  // part of itself.
  bool is_apart(UnitIndex unit) const {
    return has_own_ring(unit) && s_.layout.units[unit].tiles == 1;
  }
  // Elements of a unit that this rank updates.
  std::int64_t elements(UnitIndex unit) const;

 private:
  // Elements of the state that are updated with those of the unit.
  std::int64_t kept(UnitIndex unit, State state) const;
  bool sharded() const { return s_.plan.zero_stage >= 1; }
  bool has_own_ring(UnitIndex unit) const {
    return !s_.layout.units[unit].per_layer && s_.plan.placement.optimizer == Tier::kNvme;
  }

  Stage& s_;
  const OptimizerBuffers buffers_;
  std::vector<StateHomes> homes_;  // by state
};

}  // namespace zplan
