#include "planner/lower/stage.h"

#include <algorithm>
#include <numeric>

#include "planner/core/error.h"
#include "planner/lower/context_axis.h"

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

Attributes Stage::drawn_tokens() const {
  ZPLAN_ASSERT(plan.stretches() == 1);  // rings have fused attention, which drops nothing
  Attributes drawn = drawn_sequences();
  drawn[3] = s();
  if (sequence_parallel()) drawn[4] = by_place(kTensorAxis, local_tokens());
  drawn[5] = by_place(kContextAxis, s());
  return drawn;
}

std::string Stage::own_name(std::string name) const {
  const std::int32_t member = replay_member();
  return member == 0 ? name : "member" + std::to_string(member) + "." + name;
}

View Stage::transient(const std::string& name, Shape shape, DType dtype) {
  const BufferId id = body.get({.name = own_name(replays_ahead ? "replayed." + name : name),
                                .slot_size = size_of(dtype) * shape.elements(),
                                .category = Category::kActivations,
                                .dtype = dtype});
  return view_of(id, dtype, shape);
}

LayerRange Stage::layers_with(UnitIndex unit, const Chunk& chunk) const {
  const LayerRange& own = layout.units[unit].layers;
  if (own.count == 0) return {chunk.first_layer, chunk.layers};
  if (chunk.tower.count > 0 && own.first >= chunk.tower.first) return own;
  const std::int32_t first = std::max(own.first, chunk.first_layer);
  const std::int32_t end = std::min(own.end(), chunk.first_layer + chunk.layers);
  return {first, std::max(0, end - first)};
}

std::int32_t Stage::layers_before(std::size_t chunk, UnitIndex unit) const {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < chunk; ++i) sum += layers_with(unit, chunks[i]).count;
  return sum;
}

std::int32_t Stage::first_far(ModelState state, UnitIndex unit) const {
  const std::int32_t before = layers_before(current, unit) / unit_layers();
  return layers_with(unit, chunk()).first / unit_layers() + near_copies(state, unit) - before;
}

bool Stage::is_near(ModelState state, UnitIndex unit) const {
  if (!plan.placement.near(state)) return false;
  if (!layout.units[unit].per_layer) return is_near_outside_layers(layout.held[unit]);
  return first_of_loop + out.member() / unit_layers() < first_far(state, unit);
}

// The states of the stage's other chunks come before.
SlotExpr Stage::unit_slot(UnitIndex unit) const {
  const Unit& u = layout.units[unit];
  if (!u.per_layer) return {.per_tile = u.tiles > 1 ? 1 : 0};
  const std::int32_t ahead = out.member() / unit_layers();  // of the iteration's first unit
  const std::int32_t first =
      (layers_before(current, unit) - layers_with(unit, chunk()).first) / unit_layers() + ahead;
  return {first * u.tiles, 0, u.tiles, u.tiles > 1 ? 1 : 0};
}

std::vector<UnitLoop> Stage::unit_loops(std::int32_t first, std::int32_t units,
                                        const ModelStates& states) const {
  const auto turn = static_cast<std::int32_t>(turn_layers);
  const std::int32_t together = std::lcm(turn, unit_layers()) / unit_layers();
  const std::int32_t whole = units / together, rest = units % together;
  std::vector<UnitLoop> loops;
  std::int32_t done = 0;
  const auto go_on_to = [&](std::int32_t turns) {
    turns = std::min(turns, whole);
    if (turns > done) loops.push_back({first + done * together, turns - done, together});
    done = std::max(done, turns);
  };
  for (const std::int32_t end : borders(first, units, states)) {
    go_on_to(end / together);
    go_on_to(static_cast<std::int32_t>(ceil_div(end, together)));
  }
  go_on_to(whole);
  if (rest > 0) loops.push_back({first + whole * together, 1, rest});
  return loops;
}

// [derived] Forward comes to the j-th of the segment's s units in iteration a + j, backward to the
// (s - j)-th, whose place it takes, in iteration U - 1 - a - s + j. Modules are outside these
// loops.
bool Stage::shares_places(const Chunk& chunk, const Segment& segment) const {
  const auto turn = static_cast<std::int32_t>(turn_layers);
  if (!chunk.in_turns || unit_layers() % turn != 0 || segment.module > 0) return false;
  const std::int32_t all = chunk.model_layers() / unit_layers();
  const std::int32_t before = segment.first_unit - chunk.first_layer / unit_layers();
  return 2 * before + segment.units >= all;
}

// How many of the units have the nearer home of each state, where some have and some have not.
std::set<std::int32_t> Stage::borders(std::int32_t first, std::int32_t units,
                                      const ModelStates& states) const {
  std::set<std::int32_t> result;
  for (const UnitIndex u : layout.layer_units) {
    const LayerRange& own = layout.units[u].layers;
    const std::int32_t layer = first * unit_layers();
    if (own.count > 0 && (layer < own.first || layer >= own.end())) continue;
    for (const ModelState state : states) {
      const std::int32_t end = first_far(state, u) - first;
      if (plan.placement.near(state) && end > 0 && end < units) result.insert(end);
    }
    break;  // all that have the layer are of the same layers
  }
  return result;
}

void Stage::each_layer(const UnitLoop& loop, bool upwards, std::int32_t together,
                       const std::function<void()>& begin_unit, const std::function<void()>& emit) {
  const std::int32_t layers = loop.together * unit_layers();
  for (std::int32_t i = 0; i < layers; i += together) {
    out.set_member(upwards ? i : layers - together - i);
    if (i % unit_layers() == 0) begin_unit();
    emit();
  }
  out.set_member(0);
}

void Stage::named_by_chunk(const std::function<void()>& emit) {
  if (chunks.size() > 1) out.set_member(chunk().first_layer);
  emit();
  out.set_member(0);
}

void Stage::each_tile(std::int32_t count, const std::function<void()>& emit) {
  if (count == 1) return emit();
  out.repeat({.count = count, .var = Var::kTile}, emit);
}

void Stage::for_each_unit_outside_layers(const EmitUnit& emit, const BeginLoop& begin) {
  for (UnitIndex u = 0; u < layout.units.size(); ++u) {
    if (!holds(u) || !layout.trained[u] || layout.units[u].per_layer) continue;
    if (updates_each && !is_of_chunk(u)) continue;
    const std::int32_t tiles = layout.units[u].tiles;
    if (begin) begin(u);
    each_tile(tiles, [&] { emit(u, {.per_tile = tiles > 1 ? 1 : 0}); });
  }
}

// Units of the same layers are in one loop.
void Stage::for_each_layer_unit(const EmitUnit& emit, const ModelStates& states,
                                const BeginLoop& begin) {
  std::vector<std::vector<UnitIndex>> runs;
  for (const UnitIndex u : layout.layer_units) {
    if (!layout.trained[u]) continue;
    if (runs.empty() || layout.units[runs.back().front()].layers != layout.units[u].layers)
      runs.emplace_back();
    runs.back().push_back(u);
  }
  const std::size_t begun = current;
  for (const Chunk& chunk : chunks) {
    if (updates_each && static_cast<std::size_t>(chunk.number) != begun) continue;
    enter(chunk);
    for (const std::vector<UnitIndex>& run : runs) each_unit_of(run, states, emit, begin);
  }
  if (updates_each) current = begun;
}

void Stage::each_unit_of(const std::vector<UnitIndex>& run, const ModelStates& states,
                         const EmitUnit& emit, const BeginLoop& begin) {
  std::int32_t per_unit = 0;
  for (const UnitIndex u : run) per_unit += layout.units[u].tiles;
  const LayerRange layers = layers_with(run.front(), chunk());
  const std::int32_t first = layers.first / unit_layers();
  for (const UnitLoop& loop : unit_loops(first, layers.count / unit_layers(), states)) {
    enter(loop);
    if (begin) begin(run.front());
    out.repeat(loop.up(), [&] {
      std::int32_t use = -per_unit * first;
      for (std::int32_t ahead = 0; ahead < loop.together; ++ahead)
        for (const UnitIndex u : run) {
          const std::int32_t tiles = layout.units[u].tiles;
          out.set_member(ahead * unit_layers() + layout.units[u].tensors.front().member);
          each_tile(tiles, [&] { emit(u, {use, per_unit, tiles > 1 ? 1 : 0}); });
          use += tiles;
        }
      out.set_member(0);
    });
  }
}

}  // namespace zplan
