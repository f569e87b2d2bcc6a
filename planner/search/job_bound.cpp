#include "planner/search/job_bound.h"

#include <algorithm>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/step_cycle.h"
#include "planner/cost/step_totals.h"
#include "planner/program/instances/edges.h"
#include "sim/simulate.h"

namespace zplan {

JobBound bound_of_job(const Plan& plan, Job& job, const Cluster& cluster, TimeFloors& floors,
                      const StagePieces& stages, const BoundOptions& options) {
  const CostModel costs(job, cluster, options.wires);
  const StepTotals totals = step_totals(costs, options.counts);
  JobBound bound{.work = time_bound(costs, totals), .floor = floors.of(plan, stages)};
  SimTime longest{};
  std::vector<Seconds> turns(job.classes.size());
  for (const std::size_t stage : walked_stages(totals)) {
    Program& program = job.classes[stage].program;
    derive_data_edges(program, ImpliedEdges::kMayStay);
    const StepCycle cycle(program, costs.costs(static_cast<int>(stage)), options.counts);
    longest = std::max(longest, cycle.period());
    turns[stage] = to_seconds(cycle.turn());
  }
  bound.longest_path = to_seconds(longest) * sim::kLeastOfSteady;
  bound.with_turns = floors.of(plan, stages, turns);
  return bound;
}

}  // namespace zplan
