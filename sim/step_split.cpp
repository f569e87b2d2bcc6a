#include "sim/step_split.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/core/error.h"
#include "planner/cost/step_totals.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::sim {
namespace {

struct UseWords {
  std::string_view key, name;
};
constexpr std::array<UseWords, kStepUseCount> kWords{
    {{"products", "matrix products"},
     {"attention", "attention"},
     {"memory_bound", "memory-bound kernels"},
     {"launch", "launch"},
     {"data_parallel", "exposed data parallel communication"},
     {"tensor_parallel", "exposed tensor parallel communication"},
     {"context_parallel", "exposed context parallel communication"},
     {"expert_parallel", "exposed expert parallel communication"},
     {"pipeline", "exposed pipeline transfers"},
     {"waits", "waits for other stages"},
     {"host", "exposed work of the CPU"},
     {"copies", "exposed copies between CPU and GPU"},
     {"drives", "exposed reads and writes of NVMe"}}};

bool is_attention(Part part) {
  switch (part) {
    case Part::kAttention:
    case Part::kScores:
    case Part::kScoreCap:
    case Part::kSoftmax:
      return true;
    default:
      return false;
  }
}

StepUse compute_use(const Program& program, const Node& node) {
  if (node.kind != OpKind::kKernel) return StepUse::kMemory;
  const WorkKind kind = demand_of(program, node).kind;
  if (kind == WorkKind::kAttention || is_attention(node.role.part)) return StepUse::kAttention;
  return kind == WorkKind::kGemm ? StepUse::kProducts : StepUse::kMemory;
}

StepUse collective_use(const Node& node, const Mesh& mesh) {
  const AxisSet axes = node.group.axes;
  if (mesh.named(kTensorAxis).holds(axes)) return StepUse::kTensor;
  if (mesh.named(kPipelineAxis).holds(axes)) return StepUse::kPipeline;
  if (node.lane != Lane::kCommTensor) return StepUse::kData;
  const AxisSet experts = mesh.named(kDataAxis) | mesh.named(kTensorAxis);
  return experts.holds(axes) ? StepUse::kExpert : StepUse::kContext;
}

}  // namespace

std::string_view name(StepUse use) { return kWords[static_cast<std::size_t>(use)].name; }
std::string_view key(StepUse use) { return kWords[static_cast<std::size_t>(use)].key; }

Seconds StepSplit::compute() const {
  return part(StepUse::kProducts) + part(StepUse::kAttention) + part(StepUse::kMemory);
}

StepUse use_of(const Program& program, const Node& node, HeldBy by, const Mesh& mesh) {
  if (by == HeldBy::kLaunch) return StepUse::kLaunch;
  if (by == HeldBy::kPeers) return StepUse::kWait;
  if (node.kind == OpKind::kCollective) return collective_use(node, mesh);
  if (is_transfer(node.lane)) return StepUse::kPipeline;
  if (is_host(node.lane)) return StepUse::kHost;
  switch (node.lane) {
    case Lane::kH2d:
    case Lane::kD2h:
      return StepUse::kCopies;
    case Lane::kIoRead:
    case Lane::kIoWrite:
      return StepUse::kDrives;
    case Lane::kCommGather:  // kernels of theirs: casts and sums of what is gathered and reduced
    case Lane::kCommReduce:
      return StepUse::kData;
    case Lane::kCommTensor:
      return StepUse::kTensor;
    default:
      return compute_use(program, node);
  }
}

StepSplit step_split(const Job& job, const SimResult& result) {
  const TimeSplit& found = result.split;
  ZPLAN_ASSERT(job.classes.empty() || !found.ops.empty() || found.time.value == 0);
  StepSplit split{
      .stage = found.stage, .stages = job.stages(), .step = result.period, .steps = found.steps};
  if (job.classes.empty()) return split;
  const Program& program = job.classes[static_cast<std::size_t>(found.stage)].program;
  const std::vector<std::int64_t> instances = instances_per_step(program);
  std::array<SimTime, kStepUseCount> sums{};
  std::map<std::tuple<StepUse, Role, HeldBy>, StepOp> ops;
  for (const HeldTime& held : found.ops) {
    const Node& node = program.nodes[held.node];
    const StepUse use = use_of(program, node, held.by, job.mesh);
    sums[static_cast<std::size_t>(use)] += held.time;
    StepOp& op = ops[{use, node.role, held.by}];
    op.use = use;
    op.role = node.role;
    op.by = held.by;
    op.runs += instances[held.node];
    op.time += held.time;
  }
  for (std::size_t u = 0; u < sums.size(); ++u)
    split.parts[u] = to_seconds(sums[u]) / static_cast<double>(found.steps);
  const Seconds known = to_seconds(found.time) / static_cast<double>(found.steps);
  split.unsettled = std::max(Seconds{}, result.period - known);
  split.parts[static_cast<std::size_t>(StepUse::kWait)] += split.unsettled;
  for (const auto& [by, op] : ops) split.ops.push_back(op);
  std::stable_sort(split.ops.begin(), split.ops.end(),
                   [](const StepOp& a, const StepOp& b) { return a.time > b.time; });
  return split;
}

}  // namespace zplan::sim
