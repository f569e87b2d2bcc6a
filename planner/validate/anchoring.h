// What a measured run changes: the rates of its stack move within their uncertainty until the
// simulated time comes as close to the measured one as the run deserves (planner/certainty/
// anchor.h), simulated again after each move.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/certainty/anchor.h"
#include "planner/certainty/knowledge.h"
#include "planner/program/job/job.h"
#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"

namespace zplan {

struct Anchoring {
  StackRates rates;     // moved
  Knowledge knowledge;  // what is left to know
  std::vector<MovedRate> moved;
  Seconds before{}, after{};  // simulated
};

// `cluster`: with the rates that `prior` is of. The job is placed.
Anchoring anchor_on(const Job& job, const Cluster& cluster, Seconds measured,
                    const Knowledge& prior);

// What a run of the user's own has changed, to be told.
struct Anchor {
  std::string run;
  std::vector<MovedRate> moved;
  Seconds measured{}, before{}, after{};
};

// Reads measured runs of one stack. Throws Error where a line is no record, or a run has no step
// time.
std::vector<RunRecord> read_anchors(const std::string& path);

// The evidence learns from the run, as a run of its stack. Throws Error where no plan expresses it.
Anchor add_anchor(Evidence& evidence, const RunRecord& run, const RunCatalogues& catalogues);

}  // namespace zplan
