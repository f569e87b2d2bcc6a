// Evaluator::wins for the search: plans compared in common samples of what the constants may be
// (planner/certainty/worlds.h), by what each one's simulation has found.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "hwprofiles/hw_profile.h"
#include "planner/certainty/knowledge.h"
#include "planner/certainty/worlds.h"
#include "planner/plan/plan.h"
#include "sim/simulate.h"

namespace zplan {

// Each may be called from several threads.
class PlanWorlds {
 public:
  // `evidence`: of the stack whose rates the cluster has.
  PlanWorlds(const Cluster& cluster, const Evidence& evidence)
      : cluster_(cluster), evidence_(evidence) {}

  // Remembers the time of a plan and what it rests on (SimOptions::find_reliances).
  void keep(const Plan& plan, const sim::SimResult& found);
  // Returns in how many of 100 worlds `fastest` takes less time than `other`; both are kept.
  int wins(const Plan& fastest, const Plan& other) const;

 private:
  Contender contender(const Plan& plan) const;

  const Cluster cluster_;
  const Evidence evidence_;
  mutable std::mutex mutex_;
  std::map<std::string, Contender> known_;  // by text of the plan
};

}  // namespace zplan
