#include "planner/cost/role_times.h"

#include "planner/cost/step_totals.h"

namespace zplan {

RoleTimes role_times(const CostModel& model) {
  RoleTimes times;
  for (std::size_t stage = 0; stage < model.job().classes.size(); ++stage) {
    const Program& program = model.job().classes[stage].program;
    const std::span<const OpCost> costs = model.costs(static_cast<int>(stage));
    const std::vector<std::int64_t> instances = instances_per_step(program);
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& node = program.nodes[i];
      if (node.kind == OpKind::kMark) continue;
      RoleTime& sum = times[{node.role, node.lane}];
      sum.operations += instances[i];
      sum.time += to_seconds(costs[i].alone) * static_cast<double>(instances[i]);
    }
  }
  return times;
}

}  // namespace zplan
