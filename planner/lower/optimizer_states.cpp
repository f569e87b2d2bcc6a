#include "planner/lower/optimizer_states.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/lower/factored_moments.h"
#include "planner/program/kernels/kernel_set.h"

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
    {"scale1", Action::kReadScale1, Action::kWriteScale1},
    {"scale2", Action::kReadScale2, Action::kWriteScale2},
    {"main_grad", Action::kReadGradient, Action::kWrite},
}};

}  // namespace

OptimizerBuffers::OptimizerBuffers(const Plan& plan)
    : master(plan.precision.master),
      moments(plan.precision.moments),
      scales(find_kernel_set(plan.kernel_set).statistics),
      block(plan.optimizer.block),
      shards(plan.zero_stage >= 1 ? plan.shards() : 1),
      near(plan.near_optimizer()) {
  const auto home = [&](bool away) { return away ? Tier::kCpu : plan.placement.optimizer; };
  if (plan.keeps_master()) tiers[kMaster] = home(plan.offload.master);
  tiers[kMoment1] = tiers[kScale1] = home(plan.offload.moment1);
  tiers[kMoment2] = tiers[kScale2] = home(plan.offload.moment2);
  if (plan.precision.main_grad) tiers[kMainGradient] = home(false);
}

bool OptimizerBuffers::has(const UpdateRule& rule, State state) const {
  const bool is_scale = state == kScale1 || state == kScale2;
  const bool is_second = state == kMoment2 || state == kScale2;
  if (is_factored(rule, state)) return tiers[state].has_value();
  if ((is_scale || state == kMoment1 || is_second) && rule.moments < (is_second ? 2 : 1))
    return false;
  return tiers[state].has_value() && (rule.in_blocks || !is_scale);
}

DType OptimizerBuffers::dtype(const UpdateRule& rule, State state) const {
  switch (state) {
    case kMaster:
      return master;
    case kScale1:
    case kScale2:
      return scales;
    case kMoment1:
    case kMoment2:
      return rule.in_blocks ? DType::kU8 : moments;
    case kMainGradient:
      return moments;
  }
  ZPLAN_ASSERT(false);
}

Declared OptimizerBuffers::home(const Layout& layout, UnitIndex unit, State state,
                                HomeOf which) const {
  const bool is_near = which == HomeOf::kNear;
  const std::string prefix = std::string(is_near ? "near." : "") + kNames[state].name + ".";
  const Tier tier = is_near ? *near : *tiers[state];
  Declared home = is_factored(layout.rule[unit], state)
                      ? factored_home(layout, unit, prefix, tier)
                      : declared({prefix, dtype(layout.rule[unit], state), shards, tier,
                                  Category::kOptimizer, Lives::kStep, every(state)},
                                 layout, unit);
  if (near && home.per == Per::kUnit) home.per = is_near ? Per::kNearUnit : Per::kFarUnit;
  return home;
}

std::vector<HomeOf> OptimizerBuffers::homes(Held held) const {
  if (!near) return {HomeOf::kAll};
  if (held == Held::kByLayer) return {HomeOf::kNear, HomeOf::kFar};
  return {home_outside_layers(held)};
}

// Whole on every rank.
Declared OptimizerBuffers::factored_home(const Layout& layout, UnitIndex unit,
                                         const std::string& prefix, Tier tier) const {
  const Bytes size = size_of(moments) * factored_moments(layout.units[unit]);
  return {{.name = prefix + layout.units[unit].name,
           .slot_size = size,
           .tier = tier,
           .category = Category::kOptimizer,
           .dtype = moments,
           .unpadded = size},
          per(layout.held[unit]),
          Lives::kStep};
}

void OptimizerBuffers::declare(const Layout& layout, const Declare& declare) const {
  for (std::size_t i = 0; i < kStates; ++i)
    for (UnitIndex u = 0; u < layout.units.size(); ++u)
      if (const auto state = static_cast<State>(i); layout.trained[u] && has(layout.rule[u], state))
        for (const HomeOf which : homes(layout.held[u])) declare(home(layout, u, state, which));
}

OptimizerStates::OptimizerStates(Stage& stage) : s_(stage), buffers_(stage.plan) {
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    const auto state = static_cast<State>(i);
    homes_[i].resize(s_.layout.units.size());
    for (UnitIndex u = 0; u < homes_[i].size(); ++u)
      if (s_.holds(u) && has(u, state))
        for (const HomeOf which : buffers_.homes(s_.layout.held[u])) add(u, state, which);
  }
}

void OptimizerStates::add(UnitIndex unit, State state, HomeOf which) {
  const Declared home = buffers_.home(s_.layout, unit, state, which);
  std::int32_t copies = s_.copies(unit);
  if (home.per == Per::kNearUnit) copies = s_.near_copies(unit);
  if (home.per == Per::kFarUnit) copies -= s_.near_copies(unit);
  Homes& own = homes_[state][unit];
  if (copies > 0) (which == HomeOf::kFar ? own.far : own.first) = s_.out.add(home.times(copies));
}

Tier OptimizerStates::tier() const {
  return s_.home_of_states == HomeOf::kNear ? *buffers_.near : s_.plan.placement.optimizer;
}

std::int64_t OptimizerStates::elements(UnitIndex unit) const {
  const Unit& info = s_.layout.units[unit];
  return sharded() ? info.shard_elements : info.flat_elements;
}

std::int64_t OptimizerStates::kept(UnitIndex unit, State state) const {
  return is_factored(unit, state) ? factored_moments(s_.layout.units[unit])
                                  : elements(unit) / buffers_.every(state);
}

View OptimizerStates::view(UnitIndex unit, State state) const {
  const bool is_far = s_.home_of_states == HomeOf::kFar;
  const Homes& own = homes_[state][unit];
  SlotExpr slot = s_.unit_slot(unit);
  if (is_far && own.first) slot.base -= s_.near_copies(unit) * s_.layout.units[unit].tiles;
  return view_of(is_far ? *own.far : *own.first, buffers_.dtype(s_.layout.rule[unit], state),
                 {kept(unit, state)}, slot);
}

StateHome OptimizerStates::home(UnitIndex unit, State state) const {
  const Homes& own = homes_[state][unit];
  return {own.first ? *own.first : *own.far, sharded() ? s_.layout.units[unit].shards : AxisSet{},
          buffers_.every(state), own.first ? own.far : std::nullopt};
}

// Units that keep a state in the same type share a ring.
Ring OptimizerStates::ring(UnitIndex unit, State state) const {
  const DType dtype = buffers_.dtype(s_.layout.rule[unit], state);
  std::int64_t largest = 0;
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    if (has(u, state) && buffers_.dtype(s_.layout.rule[u], state) == dtype)
      largest = std::max(largest, kept(u, state));
  const Names& names = kNames[state];
  return {.name = std::string("staged.") + names.name + (dtype == DType::kU8 ? ".codes" : ""),
          .slot_size = size_of(dtype) * largest,
          .slots = kRingSlots,
          .read = names.read,
          .write = names.write,
          .upload = names.read,
          .download = names.write};
}

}  // namespace zplan
