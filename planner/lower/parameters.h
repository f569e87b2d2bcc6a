// Forward and backward find the parameters of one stage as follows.
//
// ZeRO 0-2: resident, whole. ZeRO 3: each rank keeps a shard, on GPU, CPU or NVMe; a unit is
// brought to the GPU and gathered into a ring of prefetch + 1 slots before every use and forgotten
// after it [Rajbhandari20 sec 5.3], [Rajbhandari21 sec 6.2]. Every rank brings its own shard over
// its own links: the bandwidth-centric partitioning of [Rajbhandari21 sec 6.1]. Gather::kOwned is
// what it is compared with there: the owner of a layer alone brings it and broadcasts it. Shards in
// fp32 are cast to what kernels read before they are gathered [Zhao23 sec 4.4]. Reads,
// uploads and gathers of later units run ahead of compute as far as the rings' reuse edges allow:
// that is the whole prefetcher. Without overlap a gather waits until compute has come to its unit.
//
// With Plan::secondary each rank keeps its part of whatever forward gathers, cut over a group of
// neighbours, until backward and recomputation gather it from there: nothing but forward's gathers
// leaves the group [Wang23 sec 3.2]. Each micro-batch writes the same values there again. So does
// every use of a tied embedding; units that backward does not read are kept too, as published.
//
// With Plan::parameter_shards fewer ranks share the parameters than what else is sharded: a rank
// updates a part of its shard, and gathers the others from those that have the same shard.
//
// A frozen unit of LoRA is kept in the type that kernels read, in fp32 or as 4-bit codes, whatever
// trained ones are kept in (planner/plan/trained.h). Codes are brought and gathered as they are;
// their scales are whole on every rank, on the GPU [FsdpQlora].
//
// Where the last backwards of a step come within the next one there are two versions
// [Narayanan20 sec 3.1]: the newest at home, which the update changes, and the one before it, of
// which a copy is taken ahead of the update. Backward always reads the older one; so does forward
// after the update of its step, while what it reads ahead of that is to be the older one soon.
// Where each micro-batch updates [Narayanan19 sec 3.3], forward reads the newest, and the copies
// that are taken ahead of the updates are a ring of versions, one for each micro-batch that is to
// go backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/lower/declared.h"
#include "planner/lower/ranks.h"
#include "planner/lower/stage.h"
#include "planner/lower/state_homes.h"
#include "planner/lower/transfers.h"

namespace zplan {

// What the bytes of parameters follow.
struct ParameterBuffers {
  ParameterBuffers(const Plan& plan, const KernelSet& kernels);

  DType stored, frozen, read;  // at home, where it is trained or not; by kernels
  DType statistics;            // of scales of codes
  bool has_codes, has_scale_codes;
  StateTiers tiers;
  std::int32_t shards;     // ranks that share a home; 1: each rank has all
  std::int32_t secondary;  // those that share a copy, or 0
  std::int32_t slots;      // of rings of units
  bool has_older;          // versions, on every stage

  bool must_gather() const { return shards > 1; }
  bool must_upload() const { return tiers.tier != Tier::kGpu; }  // of some
  // These are the types of a unit where it is kept, and as it is gathered.
  DType at_home(const Layout& layout, UnitIndex unit) const {
    return layout.coded[unit] ? DType::kU8 : layout.trained[unit] ? stored : frozen;
  }
  DType gathered_type(const Layout& layout, UnitIndex unit) const {
    return layout.coded[unit] ? DType::kU8 : read;
  }
  bool casts(const Layout& layout, UnitIndex unit) const {
    return at_home(layout, unit) != gathered_type(layout, unit);
  }
  // Elements of a unit that one of what is kept stands for.
  static std::int32_t every(const Layout& layout, UnitIndex unit) {
    return layout.coded[unit] ? kCodesPerByte : 1;
  }
  // Outside the layers, where it is used: its home is the nearer one.
  bool stays(const Layout& layout, UnitIndex unit) const;

  // Returns the scales of codes and, where these have 8 bits, their constants; in that order.
  std::vector<Declared> scales(const Layout& layout, UnitIndex unit) const;
  // As if all had the farther one.
  Declared home(const Layout& layout, UnitIndex unit) const;
  Declared older(const Layout& layout, UnitIndex unit) const;
  Declared copy(const Layout& layout, UnitIndex unit) const;
  Declared gathered(const Layout& layout, UnitIndex unit, Part part) const;
  // Where nothing is gathered: units that come from another tier.
  Declared uploaded(const Layout& layout, UnitIndex unit, Part part) const;
  void declare(const Layout& layout, const Declare& declare) const;

  friend auto operator<=>(const ParameterBuffers&, const ParameterBuffers&) = default;
};

class Parameters {
 public:
  explicit Parameters(Stage& stage);

  // A unit made readable for the nodes that follow.
  struct Resident {
    UnitIndex unit = 0;
    BufferId buffer = 0;
    SlotExpr slot;
    std::int32_t layer = 0;  // the only one of the unit that is there, where each has an owner
  };
  bool holds(const Resident& at, UnitIndex unit) const;

  // Whether nothing has to be brought: any unit can be used beside any other.
  bool are_resident() const { return !sharded() && !buffers_.must_upload(); }
  // Emits what makes the unit readable: read, upload, gather, or nothing. `ordinal` numbers the use
  // among all uses of the unit's ring in the surrounding loop; units outside the layers that do not
  // come in tiles ignore it.
  Resident fetch(Phase phase, UnitIndex unit, Part part, Ordinal ordinal);
  View view(const Resident& at, Param param) const;
  // Returns the scales of a parameter that is kept as codes.
  std::vector<View> scales(Param param) const;

  // Copies all that the update is going to change to where the older version is.
  void keep_older();

  // Where the parameters, or the rank's shard of them, are kept.
  StateHome home(UnitIndex unit) const {
    return homes_.home(unit, {.shards = shards_[unit], .every = buffers_.every(s_.layout, unit)});
  }
  // Returns where the scales of a unit of codes are kept; none for another unit.
  std::vector<StateHome> scale_homes(UnitIndex unit) const;
  View at_home(UnitIndex unit) const;  // one view per slot
  // The piece of it that this rank's optimizer writes, and the ranks that write the others.
  View piece(UnitIndex unit) const;
  Group writers(UnitIndex unit) const;

 private:
  bool sharded() const { return s_.plan.zero_stage == 3; }
  // The home, or what of it is on its way to a gather.
  View at_hand(Phase phase, UnitIndex unit, Part part, Ordinal ordinal);
  AxisSet near(UnitIndex unit, std::int32_t ranks) const {
    return neighbours(s_.mesh, s_.layout.units[unit].shards, ranks);
  }
  std::int64_t home_elements(UnitIndex unit) const {
    return s_.layout.units[unit].flat_elements / s_.layout.shards_of(unit, buffers_.shards) /
           buffers_.every(s_.layout, unit);
  }
  // Returns the largest shard of all units that are kept as this one is, in elements as kept.
  std::int64_t largest_shard(UnitIndex like) const;
  View secondary(UnitIndex unit) const;  // the rank's part of the copy
  // The version of the micro-batch so many before that of the pass, where there are several.
  View older(UnitIndex unit, std::int32_t before) const;
  bool reads_older(Phase phase, UnitIndex unit) const {
    const bool forward_does = s_.after_update && !s_.updates_each;
    return older_[unit] && (phase != Phase::kForward || forward_does);
  }
  void keep(UnitIndex unit, Part part, const View& full);
  View gathered(UnitIndex unit, Part part, SlotExpr slot);
  View cast(Phase phase, UnitIndex unit, Part part, const View& from, Ordinal ordinal);
  std::string shard_ring(const char* name, UnitIndex unit, Part part) const;
  Ring upload_ring(UnitIndex unit, Part part) const;

  Stage& s_;
  const ParameterBuffers buffers_;
  Transfers transfers_;
  StateHomes homes_;
  std::vector<AxisSet> shards_;                     // that a home is cut over
  std::vector<std::optional<BufferId>> secondary_;  // of units that forward has gathered
  std::vector<std::optional<BufferId>> older_;      // of trained units, where there are versions
  std::vector<std::vector<BufferId>> scales_;       // of units of codes
};

}  // namespace zplan
