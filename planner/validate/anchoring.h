// What a measured run changes: the rates of its stack move within their uncertainty until the
// simulated time comes as close to the measured one as the run deserves (planner/certainty/
// anchor.h), simulated again after each move.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/measured_runs.h"
#include "planner/certainty/anchor.h"
#include "planner/certainty/interval.h"
#include "planner/certainty/kind.h"
#include "planner/certainty/knowledge.h"
#include "planner/program/job/job.h"
#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"

namespace zplan {

// A step as it was simulated with the rates of one time.
struct AnchorStep {
  Seconds period{};
  std::vector<double> reliances;  // by Constant
};

struct Anchoring {
  StackRates rates;     // moved
  Knowledge knowledge;  // what is left to know
  std::vector<MovedRate> moved;
  AnchorStep before, after;
};

// `cluster`: with the rates that `prior` is of. The job is placed.
Anchoring anchor_on(const Job& job, const Cluster& cluster, Seconds measured,
                    const Knowledge& prior);

// What a run of the user's own has changed, to be told.
struct Anchor {
  std::string run;
  std::vector<MovedRate> moved;
  Seconds measured{}, before{}, after{};
  TimeInterval interval_before{}, interval_after{};  // of the predictions, 80 %
};

// A placed Job that was measured, on a cluster with the rates of its stack.
struct MeasuredJob {
  const Job& job;
  const Cluster& cluster;
  Kind kind;
  double model_flops = 0;  // of a step, as MFU counts them
};

// The evidence learns from it, as from a run of its stack that is called `run`.
Anchor learn_from(Evidence& evidence, const MeasuredJob& measured_job, const std::string& run,
                  Seconds measured, const MeasuredRuns& published);

// Reads measured runs of one stack. Throws Error where a line is no record, or a run has no step
// time.
std::vector<RunRecord> read_anchors(const std::string& path);

// The evidence learns from the run, as a run of its stack. Throws Error where no plan expresses it.
Anchor add_anchor(Evidence& evidence, const RunRecord& run, const RunCatalogues& catalogues);

}  // namespace zplan
