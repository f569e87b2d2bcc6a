// Which parameters a decoder has, and how they are flattened into units that are gathered, reduced
// and updated together: one operator, one layer or several. A unit's matrices come first (they
// decay), then its vectors; of these the ones that tensor parallelism does not split come last.
// Shards are equal, a multiple of kShardAlignment elements. Where each layer has an owner, a unit's
// layers are flattened one after the other, each to one shard.
//
// Tensor parallelism [Shoeybi19 sec 3] and tiles cut alike: queries, keys, values and the first
// product of the MLP by columns, the projection and the second product by rows; a rank has the
// piece of its tp index, a tile is a piece of that. Token embedding and output head are cut by
// rows, over the ranks only. With tiles the vectors that are not cut have a unit of their own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/program/job.h"

namespace zplan {

// The tensors of a layer, and those outside the layers. Shapes are a rank's; c = (a + 2 g) d, u = f
// or, of gate and up side by side, 2 f. What the model does not have has no shape.
enum class Param : std::uint8_t {
  kNorm1Gain,
  kNorm1Bias,
  kQkvWeight,  // [h, c]
  kQkvBias,
  kProjWeight,  // [a d, h]
  kProjBias,
  kNorm2Gain,
  kNorm2Bias,
  kFc1Weight,  // [h, u]
  kFc1Bias,
  kFc2Weight,  // [f, h]
  kFc2Bias,
  kTokenEmbedding,     // [Vp, h]
  kPositionEmbedding,  // [s, h], the first s of the model's positions
  kFinalNormGain,
  kFinalNormBias,
  kHeadWeight,  // [Vp, h], untied models only
};
inline constexpr int kParamCount = 17;

using UnitIndex = std::uint32_t;

struct ParamPlace {
  UnitIndex unit = 0;
  std::int64_t offset = 0;  // elements from the start of what is gathered at a time
  Shape shape;              // as kernels see it (vocabulary padded); rank 0: the model has none
};

struct Layout {
  std::vector<Unit> units;
  std::vector<Part> part;              // of each unit, for roles
  std::vector<UnitIndex> layer_units;  // in forward order
  using Places = std::array<ParamPlace, kParamCount>;
  std::vector<Places> places;     // by layer of a unit; what is outside the layers: the first
  std::int64_t padded_vocab = 0;  // of all ranks together
  bool tied = true;
  bool owners = false;  // Plan::owners

  const ParamPlace& of(Param p, std::int32_t member = 0) const {
    const bool in_layer = p < Param::kTokenEmbedding;
    return places[static_cast<std::size_t>(in_layer ? member : 0)][static_cast<std::size_t>(p)];
  }
  bool has(Param p) const { return of(p).shape.rank > 0; }
  UnitIndex unit_of(Param p) const { return of(p).unit; }
  Param head() const { return tied ? Param::kTokenEmbedding : Param::kHeadWeight; }
  // The unit beside the tiles: it is small and stays for the whole layer.
  bool is_shared(UnitIndex unit) const { return part[unit] == Part::kShared; }
  // Flat elements gathered and reduced at a time: the unit, or one layer where each has an owner.
  std::int64_t gathered_elements(UnitIndex unit) const;
  bool is_owned(UnitIndex unit) const { return owners && units[unit].per_layer; }
  std::int64_t touched_elements(UnitIndex unit) const;  // of these, that kernels write gradients of
  std::int64_t largest_layer_unit() const;  // gathered elements, without the shared unit
  std::int64_t largest_shard() const;       // elements, over all units
};

inline constexpr std::int64_t kShardAlignment = 128;  // elements; 256 B at 16 bit

Layout make_layout(const ModelConfig& model, const Plan& plan, const Mesh& mesh);

}  // namespace zplan
