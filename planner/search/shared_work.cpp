#include "planner/search/shared_work.h"

#include "planner/search/job_bound.h"
#include "planner/search/pass_times.h"

namespace zplan {
namespace {

bool communicates(const Node& node) {
  return node.kind == OpKind::kCollective || node.kind == OpKind::kSend ||
         node.kind == OpKind::kReceive;
}

// Sums over tensor parallel ranks that share a parameter follow how sequences are cut.
bool carries_states(const Node& node) {
  return node.kind == OpKind::kCollective && node.role.action != Action::kSumShared &&
         (node.lane == Lane::kCommGather || node.lane == Lane::kCommReduce);
}

bool is_of_passes(const Node& node) {
  const Phase phase = node.role.phase;
  return phase == Phase::kForward || phase == Phase::kRecompute || phase == Phase::kBackward;
}

bool works_off_the_gpu(const Node& node) {
  const Lane lane = node.lane;
  return lane == Lane::kH2d || lane == Lane::kD2h || lane == Lane::kCpu || lane == Lane::kIoRead ||
         lane == Lane::kIoWrite;
}

bool is_shared(const Node& node) {
  return communicates(node) || (is_of_passes(node) && is_common(node));
}

Seconds work_of(const Job& job, const Cluster& cluster, bool (*counts)(const Node&),
                SharedWires* wires) {
  const CostModel costs(job, cluster, wires);
  return time_bound(costs, step_totals(costs, counts)).seconds;
}

}  // namespace

Plan with_bare_traffic(Plan plan) {
  plan.recompute = {{}};
  plan.checkpoint_layers = 1;
  plan.partition_activations = false;
  plan.placement.activations = Tier::kGpu;
  plan.parallel.sequence_parallel = false;
  plan.prefetch = 0;
  plan.slack = 0;
  return plan;
}

std::vector<Plan> with_bare_copies(const Plan& plan) {
  std::vector<Plan> plans;
  const auto add = [&](ModelState state, Tier StatePlacement::*home) {
    const Tier tier = plan.placement.*home;
    if (tier == Tier::kGpu) return;
    Plan& alone = plans.emplace_back(with_bare_traffic(plan));
    alone.placement = {};
    alone.placement.*home = alone.placement.optimizer = tier;
    alone.placement.near_share(state) = plan.placement.near_share(state);
  };
  add(ModelState::kParameters, &StatePlacement::params);
  add(ModelState::kGradients, &StatePlacement::grads);
  return plans;
}

Seconds traffic_work(const Job& job, const Cluster& cluster, SharedWires* wires) {
  return work_of(job, cluster, carries_states, wires);
}

Seconds copies_work(const Job& job, const Cluster& cluster, SharedWires* wires) {
  return work_of(
      job, cluster, [](const Node& node) { return is_of_passes(node) && works_off_the_gpu(node); },
      wires);
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
