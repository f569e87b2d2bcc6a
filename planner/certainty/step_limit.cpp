#include "planner/certainty/step_limit.h"

#include <algorithm>
#include <set>

#include "planner/certainty/knowledge.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/step_totals.h"

namespace zplan {
namespace {

// Whether the node has a part in what bounds the step.
bool takes_part(const CostModel& model, const TimeBound& bound, std::size_t stage, const Node& node,
                const OpCost& cost) {
  switch (bound.by) {
    case BoundBy::kLane:
      return stage == bound.stage && static_cast<std::size_t>(node.lane) == bound.index;
    case BoundBy::kLaunch:
      return stage == bound.stage;
    case BoundBy::kLink:
      return std::ranges::any_of(model.shares(cost), [&](const LinkShare& share) {
        return static_cast<std::size_t>(share.link) == bound.index;
      });
  }
  return false;
}

// What the hardware reaches that the bound rests on.
std::set<HardwareTime> rests_of(const CostModel& model, const TimeBound& bound) {
  const Constant first = constant_of(HardwareTime{});
  std::set<HardwareTime> kinds;
  for (std::size_t stage = 0; stage < model.job().classes.size(); ++stage) {
    const std::vector<Node>& nodes = model.job().classes[stage].program.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const OpCost& cost = model.costs(static_cast<int>(stage))[i];
      if (!takes_part(model, bound, stage, nodes[i], cost)) continue;
      const Reliances& rests = bound.by == BoundBy::kLaunch ? cost.launch_rests : cost.rests;
      for (const Reliance& row : rests.rows())
        if (row.constant >= first && row.elasticity != 0)
          kinds.insert(static_cast<HardwareTime>(row.constant - first));
    }
  }
  return kinds;
}

}  // namespace

StepLimit step_limit(const Job& job, const Cluster& cluster) {
  const CostModel model(job, cluster);
  StepLimit limit{time_bound(model, step_totals(model))};
  const std::set<HardwareTime> kinds = rests_of(model, limit.bound);
  // Capacities of links that devices share stay those of the profile.
  if (limit.bound.by == BoundBy::kLink && !cluster.node.cores) return limit;
  limit.calibrated = !kinds.empty() && std::ranges::all_of(kinds, [&](HardwareTime kind) {
    return is_calibrated(cluster.node, kind);
  });
  return limit;
}

}  // namespace zplan
