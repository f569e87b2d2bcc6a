// What of a layer backward computes again: the whole of it, the scores and probabilities of
// attention, or what some operators give.
#pragma once

#include <optional>

#include "planner/plan/plan.h"

namespace zplan {

struct Replay {
  bool layer = false;
  bool attention = false;
  OperatorSet operators{};

  // What belongs to no operator is replayed with the whole layer only.
  bool has(std::optional<LayerOperator> op) const { return layer || (op && operators.has(*op)); }
  // What one or the other replays.
  friend Replay operator|(const Replay& a, const Replay& b) {
    return {a.layer || b.layer, a.attention || b.attention, a.operators | b.operators};
  }
  friend auto operator<=>(const Replay&, const Replay&) = default;
};

inline Replay replay_of(Recompute effective, OperatorSet operators) {
  return {effective == Recompute::kFull, effective == Recompute::kSelective, operators};
}
inline Replay replay_of(const Plan& plan, std::int64_t layer) {
  return replay_of(plan.recompute_of(layer), plan.replayed_of(layer));
}
// Of any layer.
inline Replay replay_of(const Plan& plan) {
  Replay all;
  for (const RecomputeRun& run : plan.recompute)
    all = all | replay_of(plan.effective(run.mode), run.operators);
  return all;
}

}  // namespace zplan
