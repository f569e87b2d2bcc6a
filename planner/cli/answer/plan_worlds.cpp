#include "planner/cli/answer/plan_worlds.h"

#include "planner/certainty/kind.h"
#include "planner/core/hash.h"

namespace zplan {

void PlanWorlds::keep(const Plan& plan, const sim::SimResult& found) {
  const std::string text = to_json(plan);
  const std::lock_guard lock(mutex_);
  known_[text] = {found.period, found.reliances, fnv1a32(text)};
}

int PlanWorlds::wins(const Plan& fastest, const Plan& other) const {
  const Worlds worlds(knowledge_of(evidence_, cluster_.node, kind_of(fastest, cluster_)));
  return worlds.wins(contender(fastest), contender(other));
}

Contender PlanWorlds::contender(const Plan& plan) const {
  const std::lock_guard lock(mutex_);
  return known_.at(to_json(plan));
}

}  // namespace zplan
