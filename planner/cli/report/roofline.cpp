// Where the kernels of a stage stand between the peak of its device and the bandwidth of its
// memory, from what their rows and the cost model say.
#include <algorithm>
#include <map>

#include "planner/cli/report/report.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/step_totals.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {

std::vector<RooflinePoint> roofline_of(const Job& job, const Cluster& cluster, int stage) {
  const CostModel model(job, cluster);
  const Program& program = job.classes[static_cast<std::size_t>(stage)].program;
  const std::span<const OpCost> costs = model.costs(stage);
  const std::vector<std::int64_t> instances = instances_per_step(program);
  std::map<Role, RooflinePoint> points;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.kind != OpKind::kKernel || node.lane != Lane::kCompute) continue;
    const Demand demand = demand_of(program, node);
    const auto runs = static_cast<double>(instances[i]);
    RooflinePoint& point = points[node.role];
    point.role = node.role;
    point.flops += runs * static_cast<double>(demand.flops.value);
    point.bytes += runs * static_cast<double>(demand.bytes.value);
    point.time += to_seconds(costs[i].alone) * runs;
  }
  std::vector<RooflinePoint> all;
  for (const auto& [role, point] : points)
    if (point.time.value > 0 && point.bytes > 0) all.push_back(point);
  std::stable_sort(all.begin(), all.end(),
                   [](const RooflinePoint& a, const RooflinePoint& b) { return a.time > b.time; });
  return all;
}

}  // namespace zplan
