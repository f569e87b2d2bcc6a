#include "planner/cli/answer/plan_worlds.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "planner/certainty/kind.h"
#include "planner/certainty/worlds.h"
#include "planner/core/hash.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/search/search.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

class PlanWorlds {
 public:
  PlanWorlds(const ModelConfig& model, const Cluster& cluster, const Evidence& evidence)
      : model_(model), cluster_(cluster), evidence_(evidence) {}

  int wins(const Plan& fastest, const Plan& other) {
    const Worlds worlds(knowledge_of(evidence_, cluster_.node, kind_of(fastest, cluster_)));
    return worlds.wins(contender(fastest), contender(other));
  }

 private:
  // Remembered: the fastest is asked about again and again.
  Contender contender(const Plan& plan) {
    const std::string text = to_json(plan);
    {
      const std::lock_guard lock(mutex_);
      if (const auto at = known_.find(text); at != known_.end()) return at->second;
    }
    Job job = lower(plan, model_);
    place(job, {.slack = plan.slack});
    sim::SimResult result = sim::simulate(
        job, cluster_,
        {.find_reliances = true, .tolerance = kSimulationTolerance, .fingerprint = {}});
    const Contender found{result.period, std::move(result.reliances), fnv1a32(text)};
    const std::lock_guard lock(mutex_);
    return known_.emplace(text, found).first->second;
  }

  const ModelConfig model_;
  const Cluster cluster_;
  const Evidence evidence_;
  std::mutex mutex_;
  std::map<std::string, Contender> known_;
};

}  // namespace

std::function<int(const Plan& fastest, const Plan& other)> make_wins(const ModelConfig& model,
                                                                     const Cluster& cluster,
                                                                     const Evidence& evidence) {
  const auto worlds = std::make_shared<PlanWorlds>(model, cluster, evidence);
  return [worlds](const Plan& fastest, const Plan& other) { return worlds->wins(fastest, other); };
}

}  // namespace zplan
