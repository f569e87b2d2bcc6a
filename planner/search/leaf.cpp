#include "planner/search/leaf.h"

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

// Of sums of doubles, relative. [derived] thousands of terms, each exact to 1e-16.
constexpr double kBoundRoundoff = 1e-9;

}  // namespace

void estimate(Leaf& leaf, const Evaluator& evaluator) {
  Estimate found = evaluator.estimate(leaf.candidate.plan);
  leaf.candidate.bound = found.bound;
  leaf.candidate.infeasible = std::move(found.infeasible);
  leaf.rung = Rung::kEstimated;
}

void weigh(Leaf& leaf, const Evaluator& evaluator) {
  if (evaluator.traffic)
    leaf.candidate.bound = std::max(leaf.candidate.bound, evaluator.traffic(leaf.candidate.plan));
  leaf.rung = Rung::kWeighed;
}

void fit(Leaf& leaf, const Evaluator& evaluator) {
  Fit found = evaluator.fit(leaf.candidate.plan);
  // In other units it is another plan, for which the estimate holds no more.
  const bool same = found.gather == leaf.candidate.plan.gather;
  const Seconds floor = same ? leaf.candidate.bound : Seconds{};
  leaf.candidate.bound = std::max(floor, found.bound);
  leaf.candidate.infeasible = std::move(found.infeasible);
  leaf.candidate.plan.slack = found.slack;
  leaf.candidate.plan.prefetch = found.prefetch;
  leaf.candidate.plan.gather = found.gather;
  leaf.gpu = found.gpu;
  leaf.rung = Rung::kFitted;
}

void simulate(Leaf& leaf, const Evaluator& evaluator) {
  const Seconds step = evaluator.simulate(leaf.candidate.plan);
  ZPLAN_ASSERT(leaf.candidate.bound <= step * (1 + kSimulationTolerance));
  leaf.candidate.step = step;
  leaf.is_exact = !evaluator.simulate_exactly;
  leaf.rung = Rung::kSimulated;
}

void settle(Leaf& leaf, const Evaluator& evaluator) {
  if (evaluator.simulate_exactly)
    leaf.candidate.step = evaluator.simulate_exactly(leaf.candidate.plan);
  leaf.is_exact = true;
  ZPLAN_ASSERT(leaf.candidate.bound <= *leaf.candidate.step * (1 + kBoundRoundoff));
}

TieKey tie_key(const Leaf& leaf) {
  return {simplicity_of(leaf.candidate.plan), leaf.gpu.value, leaf.place};
}

}  // namespace zplan
