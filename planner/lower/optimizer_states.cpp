#include "planner/lower/optimizer_states.h"

#include <algorithm>

namespace zplan {
namespace {

// Read the next piece and write the last while one is updated. [derived]
constexpr std::int32_t kRingSlots = 3;

struct Names {
  const char* name;
  Action read, write;
};
constexpr std::array<Names, OptimizerStates::kStates> kNames{{
    {"master", Action::kReadMaster, Action::kWriteMaster},
    {"moment1", Action::kReadMoment1, Action::kWriteMoment1},
    {"moment2", Action::kReadMoment2, Action::kWriteMoment2},
    {"main_grad", Action::kReadGradient, Action::kWrite},
}};

}  // namespace

OptimizerStates::OptimizerStates(Stage& stage) : s_(stage) {
  for (std::size_t i = 0; i < kStates; ++i) {
    const auto state = static_cast<State>(i);
    buffers_[i].resize(s_.layout.units.size());
    for (UnitIndex u = 0; u < buffers_[i].size() && has(state); ++u) {
      if (!s_.holds(u)) continue;
      const Unit& unit = s_.layout.units[u];
      buffers_[i][u] = s_.out.add({.name = kNames[i].name + ("." + unit.name),
                                   .slot_size = size_of(dtype(state)) * elements(u),
                                   .slots = s_.copies(u),
                                   .tier = tier(state),
                                   .category = Category::kOptimizer,
                                   .dtype = dtype(state),
                                   .persistent = true,
                                   .unpadded = size_of(dtype(state)) * unit.elements * s_.copies(u),
                                   .shards = sharded() ? s_.plan.shards() : 1});
    }
  }
}

bool OptimizerStates::has(State state) const {
  if (state == kMainGradient) return s_.plan.precision.main_grad;
  return state != kMaster || s_.plan.keeps_master();
}

Tier OptimizerStates::tier(State state) const {
  const OffloadedStates& away = s_.plan.offload;
  const bool on_cpu = (state == kMaster && away.master) || (state == kMoment1 && away.moment1) ||
                      (state == kMoment2 && away.moment2);
  return on_cpu ? Tier::kCpu : s_.plan.placement.optimizer;
}

DType OptimizerStates::dtype(State state) const {
  return state == kMaster ? s_.plan.precision.master : s_.plan.precision.moments;
}

std::int64_t OptimizerStates::elements(UnitIndex unit) const {
  const Unit& info = s_.layout.units[unit];
  return sharded() ? info.shard_elements : info.flat_elements;
}

View OptimizerStates::view(UnitIndex unit, State state) const {
  return view_of(buffers_[state][unit], dtype(state), {elements(unit)}, s_.unit_slot(unit));
}

StateHome OptimizerStates::home(UnitIndex unit, State state) const {
  return {buffers_[state][unit], sharded() ? s_.layout.units[unit].shards : AxisSet{}};
}

Ring OptimizerStates::ring(State state) const {
  std::int64_t largest = 0;
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u) largest = std::max(largest, elements(u));
  const Names& names = kNames[state];
  return {.name = std::string("staged.") + names.name,
          .slot_size = size_of(dtype(state)) * largest,
          .slots = kRingSlots,
          .read = names.read,
          .write = names.write,
          .upload = names.read,
          .download = names.write};
}

}  // namespace zplan
