#include "planner/search/shared_work.h"

#include "planner/search/job_bound.h"
#include "planner/search/pass_times.h"

namespace zplan {
namespace {

bool communicates(const Node& node) {
  return node.kind == OpKind::kCollective || node.kind == OpKind::kSend ||
         node.kind == OpKind::kReceive;
}

bool is_shared(const Node& node) {
  const Phase phase = node.role.phase;
  const bool passes =
      phase == Phase::kForward || phase == Phase::kRecompute || phase == Phase::kBackward;
  return communicates(node) || (passes && is_common(node));
}

// Sums over tensor parallel ranks that share a parameter follow how sequences are cut.
bool carries_states(const Node& node) {
  return node.kind == OpKind::kCollective && node.role.action != Action::kSumShared &&
         (node.lane == Lane::kCommGather || node.lane == Lane::kCommReduce);
}

}  // namespace

Plan with_bare_traffic(Plan plan) {
  plan.recompute = {{}};
  plan.checkpoint_layers = 1;
  plan.parallel.sequence_parallel = false;
  plan.prefetch = 0;
  plan.slack = 0;
  return plan;
}

Seconds traffic_work(const Job& job, const Cluster& cluster, SharedWires* wires) {
  const CostModel costs(job, cluster, wires);
  return time_bound(costs, step_totals(costs, carries_states)).seconds;
}

std::optional<Plan> all_on_gpu(Plan plan, const ModelConfig& model) {
  plan.placement = {};
  plan.partition_activations = false;
  if (illegal(plan, shape_of(model))) return std::nullopt;
  return plan;
}

Seconds shared_work(const Plan& all_on_gpu, Job& job, const Cluster& cluster, TimeFloors& floors,
                    const StagePieces& stages, SharedWires* wires) {
  JobBound bound = bound_of_job(all_on_gpu, job, cluster, floors, stages, {is_shared, wires});
  // [derived] Checkpoints that leave the GPU free their slots before backward.
  bound.through_stages = {};
  return bound.bound_of_depths(all_on_gpu);
}

}  // namespace zplan
