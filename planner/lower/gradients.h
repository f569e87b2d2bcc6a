// Where backward writes gradients and how they reach the optimizer's piece.
//
// ZeRO 0, 1: whole gradients add up over the micro-batches; after the last, all-reduce (0) or
// reduce-scatter in place (1). ZeRO 2, 3: every micro-batch's gradients of a unit go through a ring
// of full-size slots, are reduce-scattered and added to the shard at home [Rajbhandari20 sec 5.2];
// with the home on the CPU they are streamed down during backward and added there
// [Ren21 sec 4.2], with the home on NVMe on the way there. With one micro-batch nothing is added:
// the home is filled lazily. Where each layer has an owner, its gradients are reduced to that rank,
// which alone takes them home. Where fewer ranks than dp share a copy, its copies are summed too
// (hybrid sharding) [Zhao23 sec 3.2.2]. Without overlap whole gradients are reduced after the last
// backward, and compute waits for every other reduction.
//
// Gradients that backward writes in the compute type and that are added up in fp32 are cast before
// they are reduced, or their shards after it.
//
// With sequence parallelism each tensor parallel rank has the gradients of norms and row biases of
// its tokens only: these are summed over the group first [Korthikanti22 sec 4.2.2]. So are, always,
// those of what the ranks hold alike but use for their own columns only.
#pragma once

#include <optional>
#include <vector>

#include "planner/lower/declared.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"
#include "planner/lower/state_homes.h"
#include "planner/lower/transfers.h"

namespace zplan {

// What the bytes of gradients follow.
struct GradientBuffers {
  // `ends_apart`: Stage::has_ends_apart.
  GradientBuffers(const Plan& plan, const KernelSet& kernels, bool ends_apart);

  DType dtype, written;  // at home, and by kernels of backward
  StateTiers tiers;
  std::int32_t shards;  // ranks that share a home; 1: each rank has all
  std::int32_t slots;   // of rings of units
  bool partitioned;     // reduced unit by unit, as backward comes to it
  bool one_replica;
  bool adds_micro_batches;
  bool ends_apart;
  bool updated_in_turn;  // each layer beside the backward of those before it

  // Whether gradients are added up: over the micro-batches, or over both ends of the model that
  // write the unit, in two passes or tile by tile.
  bool accumulate(const Layout& layout, UnitIndex unit) const {
    const bool apart = ends_apart || layout.units[unit].tiles > 1;
    return adds_micro_batches || (apart && layout.held[unit] == Held::kBothEnds);
  }
  // Backward writes straight into the home, which is there. Partitioned gradients that accumulate
  // never do, not even on one rank, so that their order of summation does not depend on where the
  // home is.
  bool direct(const Layout& layout, UnitIndex unit, Tier home) const {
    return home == Tier::kGpu && written == dtype &&
           (!partitioned || (one_replica && !accumulate(layout, unit)));
  }

  // As if all had the farther one.
  Declared home(const Layout& layout, UnitIndex unit) const;
  // A unit's, whole, where backward writes it.
  Declared full(const Layout& layout, UnitIndex unit) const;
  void declare(const Layout& layout, const Declare& declare) const;

  friend auto operator<=>(const GradientBuffers&, const GradientBuffers&) = default;
};

class Gradients {
 public:
  explicit Gradients(Stage& stage);

  // Zeroes what will be added to; once, at the begin of the step.
  void begin_step();

  // The gradients of a unit while backward writes them.
  struct Open {
    UnitIndex unit = 0;
    Part part = Part::kLayer;
    BufferId buffer = 0;
    SlotExpr slot;
    Access access = Access::kWrite;
    Ordinal ordinal;
  };
  // `part` is the part of the model in the roles of its operations; left out, it is the unit's.
  Open open(UnitIndex unit, Ordinal ordinal, std::optional<Part> part = std::nullopt);
  View view(const Open& at, Param param) const;
  // To be called when all kernels that contribute have been emitted. `last`: this is the last
  // micro-batch.
  void close(const Open& at, bool last);
  // Whether the backward of the last micro-batch differs from the others'.
  bool last_differs() const {
    return !partitioned() && ((s_.replicas() > 1 && overlaps()) || sums_over_tensor_ranks());
  }
  // Reduces what is still to be reduced after the last backward.
  void finish_backward();

  // Adds the two copies of what the first and the last stage both have, a tied embedding.
  void sum_tied();

  // The reduced gradients that this rank updates with: all of them with ZeRO 0, else its shard.
  View piece(UnitIndex unit) const;
  // The part of such a view that this rank adds to the global norm.
  View norm_part(UnitIndex unit, View piece) const;
  // The home of those that are emitted, and whether some have one off the GPU.
  Tier tier(UnitIndex unit) const { return homes_.tier(unit); }
  bool leave_gpu() const { return buffers_.tiers.tier != Tier::kGpu; }
  DType dtype() const { return buffers_.dtype; }
  DType written() const { return buffers_.written; }  // by kernels of backward

 private:
  bool accumulates(UnitIndex unit) const { return buffers_.accumulate(s_.layout, unit); }
  bool overlaps() const { return s_.plan.overlap.gradients; }
  bool partitioned() const { return buffers_.partitioned; }
  bool direct(UnitIndex unit) const { return buffers_.direct(s_.layout, unit, tier(unit)); }
  bool casts_before_reduction() const {
    return s_.plan.precision.grad_cast == GradientCast::kBeforeReduction && s_.replicas() > 1;
  }
  bool off_gpu(UnitIndex unit) const { return tier(unit) != Tier::kGpu; }
  View home(UnitIndex unit, Access access) const;
  Ring ring(const char* name) const;
  View cast_whole(const View& source, const Open& at, Part part);
  void clear_padding(const Open& at);
  // Elements of the unit, from shared_from on, of whose gradients each tensor parallel rank has a
  // part.
  std::int64_t summed_elements(UnitIndex unit) const;
  bool sums_over_tensor_ranks() const;
  void sum_over_tensor_ranks(const Open& at);
  void wait(Action action, Part part, const View& on);
  void reduce_in_place(UnitIndex unit, Part part);
  void sum_twins(UnitIndex unit);
  void sum_copies(UnitIndex unit, const View& shard, Part part);
  View own_shard(UnitIndex unit, View whole) const;
  View reduce_to_shard(const Open& at, Part part);
  void move_home(const Open& at, Part part);
  void take_home(const Open& at, Part part, const View& shard, const View& target);
  void combine(const Open& at, Part part, const View& shard, const View& target);

  Stage& s_;
  const GradientBuffers buffers_;
  Transfers transfers_;
  StateHomes homes_;
};

}  // namespace zplan
