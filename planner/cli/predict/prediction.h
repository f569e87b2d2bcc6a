// From a Plan to numbers: the placed and verified Job of a plan, and what the simulator says of it
// on a cluster.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/certainty/certainty.h"
#include "planner/cost/throughput.h"
#include "planner/place/memory_report.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"
#include "planner/search/stack_memory_use.h"
#include "sim/simulate.h"
#include "sim/step_split.h"

namespace zplan {

struct PlannedJob {
  Plan plan;
  ModelConfig model;
  Job job;
  std::string fingerprint;
};

// Lowers, places and verifies; every Job that is simulated or run comes from here.
PlannedJob build_job(const Plan& plan, const ModelConfig& model);
// The model is the one the plan names.
PlannedJob build_job(const Plan& plan);

// flop of the model in a step at the plan's sequence length: what MFU counts.
double model_flops(const PlannedJob& planned);

struct MemoryPrediction {
  MemoryUse use;
  MemoryReport report;
  StackMemoryUse stack;  // as the software of the cluster takes it
  std::optional<Infeasible> infeasible;
  // Says that our own placement was counted, where it stands for software whose memory is not
  // known.
  std::string stand_in{};
};
// Throws Error when the cluster has fewer devices than the plan has ranks.
MemoryPrediction predict_memory(const PlannedJob& planned, const Cluster& cluster);
// `evidence`: of the stack whose memory the cluster has.
MemoryPrediction predict_memory(const PlannedJob& planned, const Cluster& cluster,
                                const Evidence& evidence);

// One sentence where software other than our own does not say what it holds in memory, so that our
// own placement is counted in its place; else nothing.
std::string stand_in_words(const StackProfile& software);

// This says what a step takes with twice the imbalance of its experts (expert_load.h).
struct ExpertLoad {
  double imbalance = 1, twice = 2;  // work of the busiest rank over the mean
  Seconds step{};                   // with `twice`
  bool fits = true;
};

struct TimePrediction {
  sim::SimResult sim;
  sim::StepSplit split;  // of its period
  Throughput throughput;
  Certainty certainty;
  std::string attention;  // what is slow or stored of it, and why (search/attention_kernels.h)
  std::optional<ExpertLoad> experts{};  // where it was asked for
};
// What a prediction needs to be told by the simulator, besides what the options ask for.
sim::SimOptions with_all_of_a_prediction(sim::SimOptions options);
// `evidence`: of the stack whose rates the cluster has.
TimePrediction predict_time(const PlannedJob& planned, const Cluster& cluster,
                            const Evidence& evidence, sim::SimOptions options = {});
// Of a simulation with such options.
TimePrediction prediction_of(const PlannedJob& planned, const Cluster& cluster,
                             const Evidence& evidence, sim::SimResult simulated);

}  // namespace zplan
