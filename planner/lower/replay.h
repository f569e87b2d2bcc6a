// What of a layer backward computes again, the whole of it, the scores and probabilities of
// attention, or what some operators give; and what it brings back from another tier.
#pragma once

#include <optional>

#include "planner/plan/plan.h"

namespace zplan {

struct Replay {
  bool layer = false;
  bool attention = false;
  OperatorSet operators{};
  OperatorSet on_cpu{}, on_nvme{};
  bool is_mixed = false;    // not of all layers
  std::int32_t layers = 1;  // that are replayed together, from one checkpoint

  // Returns whether any of these is replayed; an empty set is replayed with the whole layer only.
  bool has(OperatorSet of) const { return layer || operators.meets(of); }
  // Where the result of what is not replayed stays.
  Tier tier_of(OperatorSet of) const {
    if (on_cpu.meets(of)) return Tier::kCpu;
    return on_nvme.meets(of) ? Tier::kNvme : Tier::kGpu;
  }
  // What one or the other replays or brings back.
  friend Replay operator|(const Replay& a, const Replay& b) {
    return {a.layer || b.layer,
            a.attention || b.attention,
            a.operators | b.operators,
            a.on_cpu | b.on_cpu,
            a.on_nvme | b.on_nvme,
            a.is_mixed || b.is_mixed || a != b,
            a.layers};
  }
  friend auto operator<=>(const Replay&, const Replay&) = default;
};

inline Replay replay_of(Recompute effective, const RecomputeRun& run) {
  return {effective == Recompute::kFull, effective == Recompute::kSelective, run.operators,
          run.on_cpu, run.on_nvme};
}
inline Replay replay_of(const Plan& plan, const RecomputeRun& run) {
  Replay replay = replay_of(plan.effective(run.mode), run);
  replay.layers = plan.checkpoint_layers;
  return replay;
}
inline Replay replay_of(const Plan& plan, std::int64_t layer) {
  return replay_of(plan, plan.run_of(layer));
}
// Of any layer.
inline Replay replay_of(const Plan& plan) {
  std::optional<Replay> all;
  for (const RecomputeRun& run : plan.recompute) {
    const Replay one = replay_of(plan, run);
    all = all ? *all | one : one;
  }
  return all.value_or(Replay{});
}

}  // namespace zplan
