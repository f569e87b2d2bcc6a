#include "planner/lower/stage.h"

#include <algorithm>

namespace zplan {

bool Stage::holds(UnitIndex unit) const {
  switch (layout.held[unit]) {
    case Held::kByLayer:
      return copies(unit) > 0;
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

LayerRange Stage::layers_with(UnitIndex unit, const Chunk& chunk) const {
  const LayerRange& own = layout.units[unit].layers;
  if (own.count == 0) return {chunk.first_layer, chunk.layers};
  const std::int32_t first = std::max(own.first, chunk.first_layer);
  const std::int32_t end = std::min(own.end(), chunk.first_layer + chunk.layers);
  return {first, std::max(0, end - first)};
}

std::int32_t Stage::layers_before(std::size_t chunk, UnitIndex unit) const {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < chunk; ++i) sum += layers_with(unit, chunks[i]).count;
  return sum;
}

// The states of the stage's other chunks come before.
SlotExpr Stage::unit_slot(UnitIndex unit) const {
  const Unit& u = layout.units[unit];
  if (!u.per_layer) return {};
  const std::int32_t first =
      (layers_before(current, unit) - layers_with(unit, chunk()).first) / unit_layers();
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

// Units of the same layers are in one loop.
void Stage::for_each_layer_unit(const EmitUnit& emit) {
  std::vector<std::vector<UnitIndex>> runs;
  for (const UnitIndex u : layout.layer_units) {
    if (!layout.trained[u]) continue;
    if (runs.empty() || layout.units[runs.back().front()].layers != layout.units[u].layers)
      runs.emplace_back();
    runs.back().push_back(u);
  }
  for (const Chunk& chunk : chunks) {
    enter(chunk);
    for (const std::vector<UnitIndex>& run : runs) {
      const LayerRange layers = layers_with(run.front(), chunk);
      if (layers.count > 0) each_unit_of(run, layers, emit);
    }
  }
}

void Stage::each_unit_of(const std::vector<UnitIndex>& run, const LayerRange& layers,
                         const EmitUnit& emit) {
  std::int32_t per_layer = 0;
  for (const UnitIndex u : run) per_layer += layout.units[u].tiles;
  const std::int32_t first = layers.first / unit_layers();
  out.repeat({layers.count / unit_layers(), Var::kLayer, first, 1}, [&] {
    std::int32_t use = -per_layer * first;
    for (const UnitIndex u : run) {
      const std::int32_t tiles = layout.units[u].tiles;
      out.set_member(layout.units[u].tensors.front().member);
      each_tile(tiles, [&] { emit(u, {use, per_layer, tiles > 1 ? 1 : 0}); });
      use += tiles;
    }
    out.set_member(0);
  });
}

}  // namespace zplan
