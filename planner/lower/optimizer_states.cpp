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
constexpr std::array<Names, OptimizerBuffers::kStates> kNames{{
    {"master", Action::kReadMaster, Action::kWriteMaster},
    {"moment1", Action::kReadMoment1, Action::kWriteMoment1},
    {"moment2", Action::kReadMoment2, Action::kWriteMoment2},
    {"main_grad", Action::kReadGradient, Action::kWrite},
}};

}  // namespace

OptimizerBuffers::OptimizerBuffers(const Plan& plan)
    : master(plan.precision.master),
      moments(plan.precision.moments),
      shards(plan.zero_stage >= 1 ? plan.shards() : 1) {
  const auto home = [&](bool away) { return away ? Tier::kCpu : plan.placement.optimizer; };
  if (plan.keeps_master()) tiers[kMaster] = home(plan.offload.master);
  tiers[kMoment1] = home(plan.offload.moment1);
  tiers[kMoment2] = home(plan.offload.moment2);
  if (plan.precision.main_grad) tiers[kMainGradient] = home(false);
}

Declared OptimizerBuffers::home(const Layout& layout, UnitIndex unit, State state) const {
  return declared({kNames[state].name + std::string("."), dtype(state), shards, *tiers[state],
                   Category::kOptimizer, Lives::kStep},
                  layout, unit);
}

void OptimizerBuffers::declare(const Layout& layout, const Declare& declare) const {
  for (std::size_t i = 0; i < kStates; ++i)
    for (UnitIndex u = 0; u < layout.units.size() && tiers[i]; ++u)
      declare(home(layout, u, static_cast<State>(i)));
}

OptimizerStates::OptimizerStates(Stage& stage) : s_(stage), buffers_(stage.plan) {
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    const auto state = static_cast<State>(i);
    homes_[i].resize(s_.layout.units.size());
    for (UnitIndex u = 0; u < homes_[i].size() && has(state); ++u)
      if (s_.holds(u))
        homes_[i][u] = s_.out.add(buffers_.home(s_.layout, u, state).times(s_.copies(u)));
  }
}

std::int64_t OptimizerStates::elements(UnitIndex unit) const {
  const Unit& info = s_.layout.units[unit];
  return sharded() ? info.shard_elements : info.flat_elements;
}

View OptimizerStates::view(UnitIndex unit, State state) const {
  return view_of(homes_[state][unit], buffers_.dtype(state), {elements(unit)}, s_.unit_slot(unit));
}

StateHome OptimizerStates::home(UnitIndex unit, State state) const {
  return {homes_[state][unit], sharded() ? s_.layout.units[unit].shards : AxisSet{}};
}

Ring OptimizerStates::ring(State state) const {
  std::int64_t largest = 0;
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u) largest = std::max(largest, elements(u));
  const Names& names = kNames[state];
  return {.name = std::string("staged.") + names.name,
          .slot_size = size_of(buffers_.dtype(state)) * largest,
          .slots = kRingSlots,
          .read = names.read,
          .write = names.write,
          .upload = names.read,
          .download = names.write};
}

}  // namespace zplan
