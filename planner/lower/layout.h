// Which parameters a GPT decoder has, and how they are flattened into units that are gathered,
// reduced and updated together. A unit's matrices come first (they decay), then its vectors;
// shards are equal, a multiple of kShardAlignment elements.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/program/job.h"

namespace zplan {

// The twelve tensors of a layer, and those outside the layers.
enum class Param : std::uint8_t {
  kNorm1Gain,
  kNorm1Bias,
  kQkvWeight,  // [h, 3h]
  kQkvBias,
  kProjWeight,  // [h, h]
  kProjBias,
  kNorm2Gain,
  kNorm2Bias,
  kFc1Weight,  // [h, f]
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
  std::int64_t offset = 0;  // elements from the start of the flat unit
  Shape shape;              // as kernels see it (vocabulary padded)
};

struct Layout {
  std::vector<Unit> units;
  std::vector<Part> part;              // of each unit, for roles
  std::vector<UnitIndex> layer_units;  // in forward order
  std::array<ParamPlace, kParamCount> place{};
  std::int64_t padded_vocab = 0;
  bool tied = true;

  const ParamPlace& of(Param p) const { return place[static_cast<std::size_t>(p)]; }
  UnitIndex unit_of(Param p) const { return of(p).unit; }
  Param head() const { return tied ? Param::kTokenEmbedding : Param::kHeadWeight; }
  std::int64_t touched_elements(UnitIndex unit) const;  // that kernels write gradients of
  std::int64_t largest_layer_unit() const;              // flat elements
  std::int64_t largest_shard() const;                   // elements, over all units
};

inline constexpr std::int64_t kShardAlignment = 128;  // elements; 256 B at 16 bit

Layout make_layout(const ModelConfig& model, const Plan& plan);

}  // namespace zplan
