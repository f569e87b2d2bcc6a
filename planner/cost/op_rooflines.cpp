#include "planner/cost/op_rooflines.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/cost/kernel_time.h"
#include "planner/cost/step_totals.h"

namespace zplan {

std::string_view name(RoofLimit limit) {
  constexpr std::string_view kNames[] = {"products", "memory", "launch"};
  return kNames[static_cast<std::size_t>(limit)];
}

RoofLimit OpRoofline::limit() const {
  if (at_peak >= at_memory && at_peak >= at_launch) return RoofLimit::kProducts;
  return at_memory >= at_launch ? RoofLimit::kMemory : RoofLimit::kLaunch;
}

Seconds OpRoofline::least() const { return std::max({at_peak, at_memory, at_launch}); }

std::vector<OpRoofline> op_rooflines(const CostModel& model, int stage) {
  const Program& program = model.job().classes[static_cast<std::size_t>(stage)].program;
  const DeviceProfile& device = model.cluster().node.device;
  const KernelSet* kernels = built_in_kernels(model.job());
  const std::vector<std::int64_t> instances = instances_per_step(program);
  std::map<std::pair<Part, WorkKind>, OpRoofline> sums;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.kind != OpKind::kKernel || node.lane != Lane::kCompute) continue;
    const Demand demand = demand_of(program, node);
    OpRoofline& sum = sums[{node.role.part, demand.kind}];
    const OpCost& cost = model.costs(stage)[i];
    const auto times = static_cast<double>(instances[i]);
    sum.part = node.role.part;
    sum.kind = demand.kind;
    sum.runs += times;
    sum.flops += static_cast<double>(demand.flops.value) * times;
    sum.bytes += static_cast<double>(demand.bytes.value) * times;
    if (multiplies(demand.kind))
      sum.at_peak += (demand.flops / device.peak(format_of(program, node, kernels))) * times;
    sum.at_memory += (demand.bytes / device.memory_bandwidth) * times;
    sum.at_launch += to_seconds(cost.launch) * times;
    sum.time += to_seconds(cost.alone) * times;
  }
  std::vector<OpRoofline> lines;
  for (const auto& [key, sum] : sums) lines.push_back(sum);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const OpRoofline& a, const OpRoofline& b) { return a.time > b.time; });
  return lines;
}

}  // namespace zplan
