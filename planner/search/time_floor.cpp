#include "planner/search/time_floor.h"

#include <algorithm>
#include <array>

#include "planner/cost/kernel_time.h"
#include "planner/cost/step_totals.h"
#include "planner/lower/lower.h"
#include "planner/program/kernel_table.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

// [derived] the period is taken as steady within this tolerance, which may have either sign; sums
// of doubles are exact to much less.
constexpr double kSafety = 1.0 - 2 * sim::kSteadyTolerance;

// Of one step, in seconds.
struct StageTime {
  Seconds forward{}, recompute{}, backward{};
};

bool is_common(const Node& node) {
  return node.kind == OpKind::kKernel && node.lane == Lane::kCompute &&
         node.kernel != KernelId::kFillZero && node.kernel != KernelId::kAccumulate;
}

StageTime stage_time(const Program& program, const DeviceProfile& device) {
  const std::vector<std::int64_t> instances = instances_per_step(program);
  StageTime sum;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!is_common(node)) continue;
    const Demand demand = demand_of(program, node);
    const DType compute = program.operands(node)[0].dtype;
    const Seconds once = to_seconds(to_sim_time(device_time(demand, compute, device)));
    const Seconds all = once * static_cast<double>(instances[i]);
    if (node.role.phase == Phase::kForward) sum.forward += all;
    if (node.role.phase == Phase::kRecompute) sum.recompute += all;
    if (node.role.phase == Phase::kBackward) sum.backward += all;
  }
  return sum;
}

// Gradients that are not partitioned are added to where they are; from ZeRO 2 on backward writes
// them anew. See planner/lower/gradients.h.
std::int32_t least_zero_stage(const Plan& plan) { return plan.zero_stage < 2 ? 0 : 2; }

// The simplest plan with the same kernels.
Plan representative(Plan plan) {
  plan.zero_stage = least_zero_stage(plan);
  plan.placement = {};
  plan.gather = GatherUnit::kLayer;
  return plan;
}

}  // namespace

Seconds time_floor(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  const Job job = lower(representative(plan), model);
  Seconds floor{}, before{};
  for (const RankClass& stage : job.classes) {
    const StageTime time = stage_time(stage.program, cluster.node.device);
    floor = std::max(floor, before + time.forward + time.recompute + time.backward);
    before += (time.forward + time.backward) / static_cast<double>(job.micro_steps);
  }
  return floor * kSafety;
}

Seconds TimeFloors::of(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  const Key key{plan.parallel.dp,    plan.parallel.pp,        least_zero_stage(plan),
                plan.recompute,      plan.batch.global_batch, plan.batch.micro_batch,
                plan.batch.sequence, plan.kernel_set};
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
  }
  const Seconds floor = time_floor(plan, model, cluster);
  const std::lock_guard lock(mutex_);
  return known_.emplace(key, floor).first->second;
}

}  // namespace zplan
