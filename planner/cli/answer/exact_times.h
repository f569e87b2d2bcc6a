// Evaluator::simulate_exactly for the search, which remembers all that the simulator said: the plan
// that is answered is one of those it was asked about, and is not simulated again.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "sim/simulate.h"

namespace zplan {

class ExactTimes {
 public:
  ExactTimes(const ModelConfig& model, const Cluster& cluster) : model_(model), cluster_(cluster) {}

  // May be called from several threads.
  Seconds simulate(const Plan& plan);
  // Of a plan that was simulated: as by predict_time.
  std::optional<sim::SimResult> find(const Plan& plan) const;

 private:
  const ModelConfig model_;
  const Cluster cluster_;
  mutable std::mutex mutex_;
  std::map<std::string, sim::SimResult> known_;  // by text of the plan
};

}  // namespace zplan
