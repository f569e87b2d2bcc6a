#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/choice_text.h"
#include "planner/plan/choices.h"
#include "planner/program/job/names.h"
#include "planner/validate/record_subjects.h"

namespace zplan {
namespace {

// The words of a home are those of a tier: the reader allows no others.
Tier tier_of(const std::string& home) { return *parse_name<Tier>(home); }

// Returns the least ZeRO stage with which these states may live off the GPU.
std::int32_t least_stage(const RunOffload& offload) {
  if (offload.params != "gpu") return 3;
  return offload.grads != "gpu" ? 2 : 0;
}

void choose_shards(const RunRecord& run, const StackProfile& stack, Plan& plan) {
  const RunParallel& p = run.parallel;
  plan.zero_stage = p.zero_stage.value_or(0);
  if (!p.zero_stage || p.dp == 1)
    plan.zero_stage = std::max(plan.zero_stage, least_stage(run.offload));
  // [PyTorch] Parameters that stay gathered from forward to backward are held as ZeRO 2 holds them.
  if (plan.zero_stage == 3 && !p.reshard_after_forward.value_or(true)) plan.zero_stage = 2;
  if (plan.zero_stage > 0)
    for (const auto& [pointer, text] : stack.sharded) set_choice(plan, pointer, text);
  if (p.shard_group && plan.zero_stage > 0 && *p.shard_group < p.dp)
    plan.parallel.shards = *p.shard_group;
  if (p.optimizer_instances.value_or(1) > 1)
    plan.parallel.shards = plan.replicas() / *p.optimizer_instances;
  plan.parameter_shards = p.parameter_shard_group.value_or(plan.parameter_shards);
  plan.secondary = p.secondary_shard_group.value_or(plan.secondary);
  if (p.gather_unit) set_choice(plan, "/gather/unit", *p.gather_unit);
  plan.prefetch = p.prefetch.value_or(plan.prefetch);
}

// [MegatronCore] Keys and values go around rings unless the record says more.
std::int32_t ring_of(const RunParallel& p) {
  const std::int32_t all = p.cp.value_or(1);
  if (p.ring) return *p.ring;
  return p.cp_communication == "ulysses" || p.cp_communication == "a2a" ? 1 : all;
}

void choose_pipeline(const RunParallel& p, Plan& plan) {
  if (p.schedule) set_choice(plan, "/parallel/schedule", *p.schedule);
  const bool takes_turns = plan.schedule == Schedule::kOneForwardOneBackward ||
                           plan.schedule == Schedule::kGpipe ||
                           plan.schedule == Schedule::kInterleaved;
  if (p.interleave.value_or(1) < 2 || !takes_turns) return;
  plan.schedule = Schedule::kInterleaved;
  plan.parallel.chunks = *p.interleave;
}

}  // namespace

Reason choose_parallel(const RunRecord& run, const StackProfile& stack, PlannedRun& out) {
  const RunParallel& p = run.parallel;
  Plan& plan = out.plan;
  if (p.stage_layers && std::ranges::find(*p.stage_layers, 0) != p.stage_layers->end())
    return not_modelled("a pipeline stage without layers");
  if (p.schedule == "interleaved" && p.interleave.value_or(1) < 2)
    return "interleaved pipeline of chunks that are not stated";
  plan.parallel = {.dp = p.dp,
                   .tp = p.tp,
                   .pp = p.pp,
                   .sequence_parallel = p.tp > 1 && p.sequence_parallel.value_or(false)};
  plan.parallel.cp = p.cp.value_or(1);
  plan.parallel.ring = ring_of(p);
  if (p.order) set_choice(plan, "/parallel/order", *p.order);
  choose_shards(run, stack, plan);
  choose_pipeline(p, plan);
  plan.placement = {.params = tier_of(run.offload.params),
                    .grads = tier_of(run.offload.grads),
                    .optimizer = tier_of(run.offload.optimizer),
                    .activations = tier_of(run.offload.activations)};
  plan.delayed_update = run.offload.delayed_update;
  plan.overlap.gradients = p.overlap_grad_reduce.value_or(plan.overlap.gradients);
  plan.overlap.parameters = p.overlap_param_gather.value_or(plan.overlap.parameters);
  plan.overlap.optimizer = p.overlap_update.value_or(plan.overlap.optimizer);
  return std::nullopt;
}

// Stages have the layers that are stated; else, where the layers do not come to equal pieces, but
// do with the embedding and the head counted as a layer each, the first and the last piece have a
// layer less.
void choose_pieces(const RunRecord& run, Plan& plan) {
  if (run.parallel.stage_layers) {
    plan.stage_layers = *run.parallel.stage_layers;
    return;
  }
  const std::int32_t pieces = plan.pieces();
  const bool equal = run.model.layers % pieces == 0;
  if (pieces < 2 || !run.parallel.ends_count_as_layers.value_or(!equal)) return;
  if ((run.model.layers + 2) % pieces != 0) return;
  plan.stage_layers.assign(static_cast<std::size_t>(pieces),
                           static_cast<std::int32_t>((run.model.layers + 2) / pieces));
  --plan.stage_layers.front();
  --plan.stage_layers.back();
}

Reason choose_links(const RunRecord& run, PlannedRun& out) {
  const RunHardware& stated = run.hardware;
  Cluster& cluster = out.cluster;
  const std::int32_t in_node = cluster.node.devices_per_node;
  const std::int32_t domain = stated.nvlink_domain.value_or(in_node);
  if (domain != in_node) {
    if (domain % in_node != 0 && in_node % domain != 0)
      return not_modelled("a domain of peer links that cuts nodes");
    if (cluster.node.topology.peer_shape.kind != PeerKind::kSwitch)
      return not_modelled("a domain of peer links without a switch");
  }
  if (stated.nvlink_domain) cluster.fast_link_domain = domain == in_node ? 0 : domain;
  TopologySpec& wires = cluster.node.topology;
  if (!stated.ports_per_gpu || cluster.nodes == 1) return std::nullopt;
  const double all = wires.nic.capacity.value * wires.nics_per_switch;
  const double ports = std::round(*stated.ports_per_gpu * wires.gpus_per_switch);
  wires.nics_per_switch = std::clamp(static_cast<int>(ports), 1, wires.gpus_per_switch);
  wires.nic.capacity.value = all / wires.nics_per_switch;
  return std::nullopt;
}

}  // namespace zplan
