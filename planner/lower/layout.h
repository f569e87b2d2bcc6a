// This says how the parameters of a model are flattened into units that are gathered, reduced and
// updated together: one operator, one layer or several. A unit's matrices come first (they decay),
// then its vectors; of both the ones that tensor parallelism does not split come last. Shards are
// equal, a multiple of kShardAlignment elements. Where each layer has an owner, a unit's layers are
// flattened one after the other, each to one shard.
//
// Layers come in kinds, in turn. So many are worked off together, in one iteration of a layer loop,
// that each unit is there once, whatever kinds and however many layers it has; with a checkpoint of
// several layers the units of all of them, under names of their own. Or kinds come one
// after the other, each of consecutive layers, which alone have its units.
//
// Tensor parallelism [Shoeybi19 sec 3] and tiles cut alike, as a parameter says it is split: a rank
// has the piece of its tp index, a tile is a piece of that. Outside the layers only the tables of
// the vocabulary come in tiles (blocks/embedding.h). With tiles the vectors that are not cut have a
// unit of their own. So has, without tiles, all of a layer that is not updated as its cut matrices
// are (planner/plan/optimizer_kind.h); their blocks of states end where shards end. Or, with LoRA,
// its factors (planner/plan/trained.h), with which go no others; where the matrices are 4-bit codes
// the other frozen parameters of a layer are one more small unit. So have experts that replicas
// share among them, and the factors beside their matrices, or the biases that have another rule:
// other replicas have copies of a part, which they shard.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "planner/lower/blocks/param.h"
#include "planner/plan/plan.h"
#include "planner/program/job/job.h"

namespace zplan {

using UnitIndex = std::uint32_t;

struct ParamPlace {
  UnitIndex unit = 0;
  std::int64_t offset = 0;  // elements from the start of what is gathered at a time
  Shape shape{};            // of a rank's piece, as kernels see it; rank 0: it is not there
};

// The parts of units that stay for the whole layer.
inline constexpr std::array kSharedParts{Part::kShared, Part::kExpertFactors, Part::kPlain};

// A router's bias among the flat elements of a unit (choice_bias.h).
struct BalancedBias {
  std::int64_t begin = 0, experts = 0;
  std::int64_t rate = 0;    // in units of 1e-9
  std::int32_t member = 0;  // the layer of the unit that has it
};

struct Layout {
  std::vector<Unit> units;
  std::vector<Part> part;                  // of each unit, for roles
  std::vector<Held> held;                  // of each unit
  std::vector<UpdateRule> rule;            // of each unit
  std::vector<bool> trained;               // whether each unit is
  std::vector<bool> coded;                 // whether each unit is kept as 4-bit codes
  std::vector<std::int32_t> expert_ranks;  // replicas with other experts of each unit; 1: none
  // Of what tensor parallel ranks hold alike in each unit: the first elements, of whose gradients
  // each rank has a part.
  std::vector<std::int64_t> summed_elements;
  std::vector<std::vector<BalancedBias>> balanced;  // of each unit
  std::vector<UnitIndex> layer_units;               // in forward order
  using Places = std::vector<ParamPlace>;           // by index of the parameter
  // By layer of an iteration; what is outside the layers stands with the first.
  std::vector<Places> places;
  bool owned = false;     // whether each layer has an owner
  bool has_head = false;  // an output head apart from the embedding

  // The place of a parameter in this layer of an iteration, or in the first layer that has it.
  const ParamPlace& of(Param p, std::int32_t member = 0) const;
  UnitIndex unit_of(Param p, std::int32_t member = 0) const { return of(p, member).unit; }
  bool trains(Param p) const { return trained[unit_of(p)]; }
  bool is_coded(Param p) const { return coded[unit_of(p)]; }
  // Returns whether this layer of an iteration has parameters in a unit of the part.
  bool has(Part part, std::int32_t member) const;
  std::int32_t layers_together() const { return static_cast<std::int32_t>(places.size()); }
  // A unit beside the others of a layer: it is small and stays for the whole layer. There is one,
  // of experts that replicas share among them another one of the factors of LoRA or the biases, and
  // beside 4-bit codes another one of what is frozen and has none.
  bool is_shared(UnitIndex unit) const {
    return std::ranges::find(kSharedParts, part[unit]) != kSharedParts.end();
  }
  // Units of the layers that come through a ring, one after the other.
  bool is_in_ring(UnitIndex unit) const { return units[unit].per_layer && !is_shared(unit); }
  // Units of which several are on their way, in the slots of a ring.
  bool has_ring(UnitIndex unit) const { return units[unit].per_layer || units[unit].tiles > 1; }
  // What the output head multiplies with: a unit of its own or a tied embedding.
  bool is_head(UnitIndex unit) const {
    return part[unit] == Part::kHead || (!has_head && held[unit] == Held::kBothEnds);
  }
  // Of so many ranks that share the states of other units, those that share this one's.
  std::int32_t shards_of(UnitIndex unit, std::int32_t shards) const {
    return shards == 1 ? 1 : shards / expert_ranks[unit];
  }
  // Returns what a rank has of a unit of matrices, in the order of its elements; of a tensor of
  // experts the matrix of each.
  std::vector<ParamPlace> matrices_of(UnitIndex unit) const;
  // Flat elements gathered and reduced at a time: the unit, or one layer where each has an owner.
  std::int64_t gathered_elements(UnitIndex unit) const;
  bool is_owned(UnitIndex unit) const { return owned && units[unit].per_layer; }
  // Those of the gathered elements that kernels write gradients of.
  std::int64_t touched_elements(UnitIndex unit) const;
  std::int64_t largest_layer_unit() const;  // gathered elements, without the shared unit
  std::int64_t largest_shard() const;       // elements, over all units
};

inline constexpr std::int64_t kShardAlignment = 128;  // elements; 256 B at 16 bit

Layout make_layout(const ParamTable& params, const Plan& plan, const Mesh& mesh);

}  // namespace zplan
