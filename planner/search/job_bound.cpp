#include "planner/search/job_bound.h"

#include <algorithm>
#include <optional>
#include <utility>
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
  if (bound.is_far_above()) return bound;
  SimTime longest{};
  std::vector<Seconds> turns(job.classes.size());
  std::vector<std::pair<std::size_t, SimTime>> walks;  // stage, its walk
  for (const std::size_t stage : walked_stages(totals)) {
    Program& program = job.classes[stage].program;
    derive_data_edges(program, ImpliedEdges::kMayStay);
    const StepCycle cycle(program, costs.costs(static_cast<int>(stage)), options.counts);
    longest = std::max(longest, cycle.period());
    turns[stage] = to_seconds(cycle.turn());
    walks.emplace_back(stage, cycle.through());
  }
  bound.longest_path = to_seconds(longest) * sim::kLeastOfSteady;
  bound.with_turns = floors.of(plan, stages, turns);
  for (const auto& [stage, walk] : walks)
    if (const std::optional<Seconds> before = floors.before(plan, stages, stage))
      bound.through_stages = std::max(
          bound.through_stages, (*before + to_seconds(walk) + turns.front()) * sim::kLeastOfSteady);
  return bound;
}

}  // namespace zplan
