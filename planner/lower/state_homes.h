// The homes of a state of the model: one of all layers, or a nearer one of the first layers of each
// stage and another of the rest (StatePlacement). What the three states have in common is said
// here: which bytes are where, and in which buffer a loop over layers finds them.
//
// The near layers are the first ones, whole gather units of them: forward needs these first, so
// that the next step begins while transfers of the others still go on, of which backward gives the
// gradients first. [TwinFlow] has the CPU update the first layers instead. What comes before the
// first layer of the model goes with the near ones, what comes only after the last with the others.
#pragma once

#include <optional>
#include <vector>

#include "planner/lower/declared.h"
#include "planner/lower/stage.h"

namespace zplan {

// What the bytes of a state follow of its homes.
struct StateTiers {
  StateTiers(const Plan& plan, ModelState of);

  ModelState state;
  Tier tier;                 // of all, or of the farther ones
  std::optional<Tier> near;  // of the nearer ones

  // `all` as each of the homes that a unit has.
  std::vector<Declared> homes(Declared all, Held held) const;
  Tier of(Held held) const;  // of what is outside the layers

  friend auto operator<=>(const StateTiers&, const StateTiers&) = default;
};

// The buffers of a state of a stage's units.
class StateHomes {
 public:
  StateHomes(const Stage& stage, StateTiers tiers)
      : s_(stage), tiers_(tiers), homes_(stage.layout.units.size()) {}

  // Makes those of a unit, so many of each, which is declared as if all had one.
  void add(UnitIndex unit, const Declared& all, std::int32_t versions = 1);
  // What is emitted of the unit: a view per slot, and where it is.
  View view(UnitIndex unit, DType dtype, const Shape& shape) const;
  Tier tier(UnitIndex unit) const;
  // `like` says how a home is cut; a second buffer goes on where the first ends.
  StateHome home(UnitIndex unit, StateHome like) const;

 private:
  struct Buffers {
    std::optional<BufferId> near, far;
  };

  const Stage& s_;
  StateTiers tiers_;
  std::vector<Buffers> homes_;
};

}  // namespace zplan
