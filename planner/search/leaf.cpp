#include "planner/search/leaf.h"

#include <algorithm>

namespace zplan {

void estimate(Leaf& leaf, const Evaluator& evaluator) {
  Estimate found = evaluator.estimate(leaf.candidate.plan);
  leaf.candidate.bound = found.bound;
  leaf.candidate.infeasible = std::move(found.infeasible);
  leaf.rung = Rung::kEstimated;
}

void fit(Leaf& leaf, const Evaluator& evaluator) {
  Fit found = evaluator.fit(leaf.candidate.plan);
  leaf.candidate.bound = std::max(leaf.candidate.bound, found.bound);
  leaf.candidate.infeasible = std::move(found.infeasible);
  leaf.candidate.plan.slack = found.slack;
  leaf.gpu = found.gpu;
  leaf.rung = Rung::kFitted;
}

void simulate(Leaf& leaf, const Evaluator& evaluator) {
  leaf.candidate.step = evaluator.simulate(leaf.candidate.plan);
  leaf.rung = Rung::kSimulated;
}

TieKey tie_key(const Leaf& leaf, std::size_t index) {
  return {tiers_used(family_of(leaf.candidate.plan)), leaf.gpu.value, index};
}

}  // namespace zplan
