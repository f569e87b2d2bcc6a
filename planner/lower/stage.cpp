#include "planner/lower/stage.h"

namespace zplan {

bool Stage::holds(UnitIndex unit) const {
  switch (layout.held[unit]) {
    case Held::kByLayer:
      return true;
    case Held::kFirstStage:
      return is_first();
    case Held::kLastStage:
      return is_last();
    case Held::kBothEnds:
      return is_first() || is_last();
  }
  return false;
}

View Stage::transient(const std::string& name, Shape shape, DType dtype) {
  const BufferId id = body.get({.name = name,
                                .slot_size = size_of(dtype) * shape.elements(),
                                .category = Category::kActivations,
                                .dtype = dtype});
  return view_of(id, dtype, shape);
}

SlotExpr Stage::unit_slot(UnitIndex unit) const {
  const Unit& u = layout.units[unit];
  if (!u.per_layer) return {};
  const std::int32_t first = chunk().layers_before / unit_layers() - first_unit();
  return {first * u.tiles, 0, u.tiles, u.tiles > 1 ? 1 : 0};
}

void Stage::each_layer(bool upwards, const std::function<void()>& emit) {
  for (std::int32_t i = 0; i < unit_layers(); ++i) {
    out.set_member(upwards ? i : unit_layers() - 1 - i);
    emit();
  }
  out.set_member(0);
}

void Stage::each_tile(std::int32_t count, const std::function<void()>& emit) {
  if (count == 1) return emit();
  out.repeat({.count = count, .var = Var::kTile}, emit);
}

void Stage::for_each_unit_outside_layers(const EmitUnit& emit) const {
  for (UnitIndex u = 0; u < layout.units.size(); ++u)
    if (holds(u) && layout.trained[u] && !layout.units[u].per_layer) emit(u, {});
}

void Stage::for_each_layer_unit(const EmitUnit& emit) {
  std::int32_t per_layer = 0;
  for (UnitIndex u : layout.layer_units) per_layer += layout.trained[u] ? layout.units[u].tiles : 0;
  for (const Chunk& chunk : chunks) {
    enter(chunk);
    out.repeat({units(), Var::kLayer, first_unit(), 1}, [&] {
      std::int32_t use = -per_layer * first_unit();
      for (UnitIndex u : layout.layer_units) {
        if (!layout.trained[u]) continue;
        const std::int32_t tiles = layout.units[u].tiles;
        out.set_member(layout.units[u].tensors.front().member);
        each_tile(tiles, [&] { emit(u, {use, per_layer, tiles > 1 ? 1 : 0}); });
        use += tiles;
      }
      out.set_member(0);
    });
  }
}

}  // namespace zplan
