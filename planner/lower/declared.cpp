#include "planner/lower/declared.h"

#include <algorithm>

namespace zplan {

Buffer Declared::times(std::int32_t count, const std::string& prefix) const {
  Buffer result = buffer;
  result.name = prefix + buffer.name;
  result.slots *= count;
  result.unpadded = result.unpadded * count;
  result.persistent = lives == Lives::kStep;
  return result;
}

Declared declared(const ValueSpec& value, std::int32_t slots, Per per, Lives lives) {
  return {{.name = value.name,
           .slot_size = size_of(value.dtype) * value.shape.elements(),
           .slots = slots,
           .category = Category::kActivations,
           .dtype = value.dtype},
          per,
          lives};
}

Declared workspace_of(const KernelSet& kernels) {
  return {{.name = "workspace",
           .slot_size = kernels.workspace,
           .category = Category::kWorkspace,
           .dtype = DType::kF32},
          Per::kStage,
          Lives::kStep};
}

Declared declared(const StateBuffer& state, const Layout& layout, UnitIndex unit) {
  const Unit& info = layout.units[unit];
  const Bytes element = size_of(state.dtype);
  const std::int32_t shards = layout.shards_of(unit, state.shards);
  return {{.name = state.prefix + info.name,
           .slot_size = element * (info.flat_elements / shards / state.every),
           .slots = info.tiles,
           .tier = state.tier,
           .category = state.category,
           .dtype = state.dtype,
           .unpadded = element * ceil_div(info.elements, state.every) * info.tiles,
           .shards = shards},
          per(layout.held[unit]),
          state.lives};
}

Declared declared(const UnitBuffer& buffer, const Layout& layout, UnitIndex unit,
                  std::string_view own_name) {
  const Unit& info = layout.units[unit];
  const bool in_ring = layout.is_in_ring(unit);
  const std::int64_t elements = in_ring ? layout.largest_layer_unit() : info.flat_elements;
  const Lives own_lives = layout.is_head(unit) ? Lives::kHead : Lives::kBriefly;
  return {{.name = buffer.prefix + (in_ring ? "layer" : std::string(own_name)),
           .slot_size = size_of(buffer.dtype) * (elements / buffer.every),
           .slots = info.per_layer ? buffer.slots : std::min(buffer.slots, info.tiles),
           .category = Category::kGathered,
           .dtype = buffer.dtype},
          in_ring ? Per::kStage : Per::kLastStage,
          in_ring ? buffer.lives : own_lives};
}

}  // namespace zplan
