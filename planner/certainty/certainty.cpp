#include "planner/certainty/certainty.h"

#include <algorithm>

namespace zplan {

Certainty certainty_of(const Predicted& predicted, const Evidence& evidence,
                       const MeasuredRuns& measured, const HwProfile& node, const Kind& kind) {
  Knowledge knowledge = knowledge_of(evidence, node, kind);
  const Spread spread = spread_of(knowledge, predicted.reliances);
  Certainty certainty{interval_of(predicted.period, spread), std::move(knowledge.unknown)};
  const BestRun* best = measured.best_of(kind.device, kind.format);
  if (best != nullptr && predicted.mfu > best->mfu) {
    certainty.exceeded = *best;
    const Seconds as_good = predicted.period * (predicted.mfu / best->mfu);
    certainty.interval.high = std::max(certainty.interval.high, as_good);
  }
  return certainty;
}

}  // namespace zplan
