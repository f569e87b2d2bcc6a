// Where forward and backward find the parameters of one stage.
//
// ZeRO 0-2: resident, full. ZeRO 3: each rank keeps a shard (on GPU or CPU); a unit is gathered
// into a ring of prefetch + 1 slots before every use and forgotten after it
// [Rajbhandari20 sec 5.3], [Rajbhandari21 sec 6.2]. The gather of a later unit runs ahead of
// compute as far as the ring's reuse edges allow: that is the whole prefetcher.
#pragma once

#include <vector>

#include "planner/lower/stage.h"

namespace zplan {

// The how-many-th use of a ring an instance is: base + per_layer * layer.
struct Ordinal {
  std::int32_t base = 0;
  std::int32_t per_layer = 0;
  SlotExpr slot() const { return {base, 0, per_layer}; }
};

class Parameters {
 public:
  explicit Parameters(Stage& stage);

  // A unit made readable for the nodes that follow.
  struct Resident {
    UnitIndex unit = 0;
    BufferId buffer = 0;
    SlotExpr slot;
  };

  // Emits what it takes (upload, gather, or nothing). Ordinal: of this use among all uses of the
  // layer ring in the surrounding loop; ignored for units outside the layers.
  Resident fetch(Phase phase, UnitIndex unit, Part part, Ordinal ordinal);
  View view(const Resident& at, Param param) const;

  // Home of the parameters: full or shard.
  const StateHome& home(UnitIndex unit) const { return homes_[unit]; }
  // The piece of the home that this rank's optimizer writes (one view per layer slot).
  View piece(UnitIndex unit) const;

 private:
  bool sharded() const { return s_.plan.zero_stage == 3; }
  bool must_gather() const { return sharded() && s_.dp() > 1; }
  bool must_upload() const { return s_.plan.placement.params == Tier::kCpu; }
  BufferId gathered_buffer(UnitIndex unit, Part part);
  BufferId staging_buffer();

  Stage& s_;
  std::vector<StateHome> homes_;
};

}  // namespace zplan
