// The bias that a router's choice follows and no weight: after each step it rises for experts that
// had less than the mean load and falls for those that had more, by a rate [Wang24 Algorithm 1].
// Loads are choices, dropped ones too, of the step's global batch: counts, so that they are the
// same however a step is cut. Each rank counts in forward what it routes; a replay does not. Before
// the update of the unit that has the bias all ranks of its layer add their counts up, and move
// what they have of it in the master copy. Its gradient is zero, so that the update itself leaves
// it.
#pragma once

#include "planner/lower/stage.h"

namespace zplan {

// The loads that the router of one of a unit's layers counts.
View loads_of(const Stage& stage, UnitIndex unit, std::int32_t member);

class ChoiceBias {
 public:
  explicit ChoiceBias(Stage& stage);

  void begin_step();
  // In the rank's piece of the unit's master copy, which begins with flat element `first`, on the
  // lane that updates it.
  void move(UnitIndex unit, const View& master, Attribute first, Lane lane);

 private:
  View near(const View& loads, Lane lane);

  Stage& s_;
};

}  // namespace zplan
