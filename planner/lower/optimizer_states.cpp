#include "planner/lower/optimizer_states.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/lower/factored_moments.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

// Read the next piece and write the last while one is updated. [derived]
constexpr std::int32_t kStateSlots = 3;

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
      homes(plan, ModelState::kOptimizer) {
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

Declared OptimizerBuffers::home(const Layout& layout, UnitIndex unit, State state) const {
  const std::string prefix = kNames[state].name + std::string(".");
  if (is_factored(layout.rule[unit], state))
    return factored_home(layout, unit, prefix, *tiers[state]);
  return declared({prefix, dtype(layout.rule[unit], state), shards, *tiers[state],
                   Category::kOptimizer, Lives::kStep, every(state)},
                  layout, unit);
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
        for (const Declared& each : homes.homes(home(layout, u, state), layout.held[u]))
          declare(each);
}

OptimizerStates::OptimizerStates(Stage& stage)
    : s_(stage),
      buffers_(stage.plan),
      homes_(OptimizerBuffers::kStates, StateHomes(stage, buffers_.homes)) {
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    const auto state = static_cast<State>(i);
    for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
      if (s_.holds(u) && has(u, state)) homes_[i].add(u, buffers_.home(s_.layout, u, state));
  }
}

Tier OptimizerStates::tier(UnitIndex unit) const { return homes_[kMoment1].tier(unit); }

std::int64_t OptimizerStates::elements(UnitIndex unit) const {
  const Unit& info = s_.layout.units[unit];
  return sharded() ? info.shard_elements : info.flat_elements;
}

std::int64_t OptimizerStates::kept(UnitIndex unit, State state) const {
  return is_factored(unit, state) ? factored_moments(s_.layout.units[unit])
                                  : elements(unit) / buffers_.every(state);
}

View OptimizerStates::view(UnitIndex unit, State state) const {
  return homes_[state].view(unit, buffers_.dtype(s_.layout.rule[unit], state), {kept(unit, state)});
}

StateHome OptimizerStates::home(UnitIndex unit, State state) const {
  return homes_[state].home(unit, {.shards = sharded() ? s_.layout.units[unit].shards : AxisSet{},
                                   .every = buffers_.every(state)});
}

// Units that keep a state in the same type share a ring. What is outside the layers has one of its
// own where the optimizer is on NVMe: those that come next need not wait until it is written.
Ring OptimizerStates::ring(UnitIndex unit, State state) const {
  const DType dtype = buffers_.dtype(s_.layout.rule[unit], state);
  const bool own = has_own_ring(unit);
  std::int64_t largest = kept(unit, state);
  for (UnitIndex u = 0; u < s_.layout.units.size() && !own; ++u)
    if (has(u, state) && !has_own_ring(u) && buffers_.dtype(s_.layout.rule[u], state) == dtype)
      largest = std::max(largest, kept(u, state));
  const Unit& info = s_.layout.units[unit];
  const Names& names = kNames[state];
  return {.name = std::string("staged.") + (own ? info.name + "." : "") + names.name +
                  (dtype == DType::kU8 ? ".codes" : ""),
          .slot_size = size_of(dtype) * largest,
          .slots = own ? std::min(kStateSlots, info.tiles) : kStateSlots,
          .read = names.read,
          .write = names.write,
          .upload = names.read,
          .download = names.write};
}

}  // namespace zplan
