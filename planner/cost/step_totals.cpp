#include "planner/cost/step_totals.h"

#include <algorithm>

#include "planner/program/job/meetings.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {
namespace {

// A transfer ends on the nearest picosecond; what rounding may gain on it. [derived]
constexpr SimTime kRounding{1};

// A send and its receive, and the members of a group over several classes, share one flow; it is
// counted where the lowest class (or the sender) issues it.
bool carries_flow(const Mesh& mesh, int stage, const Node& node) {
  if (node.kind == OpKind::kReceive) return false;
  return node.kind != OpKind::kCollective || stages_of(mesh, node.group, stage).front() == stage;
}

void add_links(const CostModel& model, const OpCost& cost, std::int64_t times,
               std::vector<Seconds>& links) {
  for (const LinkShare& share : model.shares(cost)) {
    const BytesPerSecond rate = model.links()[share.link].capacity / share.weight;
    const double seconds = (cost.bytes / rate).value - to_seconds(kRounding).value;
    links[share.link] += Seconds{std::max(0.0, seconds)} * static_cast<double>(times);
  }
}

}  // namespace

std::vector<std::int64_t> runs_per_step(const Program& program) {
  std::vector<std::int64_t> runs(program.blocks.size(), 1);
  // A block comes after its parent.
  for (std::size_t b = 1; b < program.blocks.size(); ++b) {
    runs[b] = runs[program.blocks[b].parent] * program.blocks[b].count;
  }
  return runs;
}

std::vector<std::int64_t> instances_per_step(const Program& program) {
  const std::vector<std::int64_t> runs = runs_per_step(program);
  std::vector<std::int64_t> instances;
  instances.reserve(program.nodes.size());
  for (const Node& node : program.nodes) instances.push_back(runs[node.block]);
  return instances;
}

StepTotals step_totals(const CostModel& model, const std::function<bool(const Node&)>& counts) {
  const Job& job = model.job();
  StepTotals totals;
  totals.links.resize(model.links().size());
  for (int stage = 0; stage < static_cast<int>(job.classes.size()); ++stage) {
    const Program& program = job.classes[static_cast<std::size_t>(stage)].program;
    const std::vector<std::int64_t> instances = instances_per_step(program);
    ClassTotals& own = totals.classes.emplace_back();
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& node = program.nodes[i];
      if (!counts(node)) continue;
      const OpCost& cost = model.costs(stage)[i];
      const std::int64_t times = instances[i];
      const SimTime rounding = cost.bytes.value > 0 ? kRounding : SimTime{0};
      const SimTime alone = std::max(SimTime{0}, cost.alone - rounding);
      own.lane[static_cast<std::size_t>(node.lane)] += alone * times;
      own.launch += cost.launch * times;
      if (carries_flow(model.job().mesh, stage, node)) add_links(model, cost, times, totals.links);
    }
  }
  return totals;
}

StepTotals step_totals(const CostModel& model) {
  return step_totals(model, [](const Node&) { return true; });
}

std::set<std::size_t> walked_stages(const StepTotals& totals) {
  const auto compute = [](const ClassTotals& own) {
    return own.lane[static_cast<std::size_t>(Lane::kCompute)];
  };
  const auto most = std::ranges::max_element(totals.classes, {}, compute);
  return {0, static_cast<std::size_t>(most - totals.classes.begin())};
}

double hardware_flops_per_step(const Job& job) {
  double sum = 0;
  for (const RankClass& rank_class : job.classes) {
    const Program& program = rank_class.program;
    const std::vector<std::int64_t> instances = instances_per_step(program);
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      if (program.nodes[i].kind != OpKind::kKernel) continue;
      const Demand demand = demand_of(program, program.nodes[i]);
      if (!multiplies(demand.kind)) continue;
      sum += static_cast<double>(demand.flops.value) * static_cast<double>(instances[i]);
    }
  }
  return sum * job.replicas();
}

}  // namespace zplan
