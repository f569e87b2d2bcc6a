#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/choice_text.h"
#include "planner/plan/choices.h"
#include "planner/program/job/names.h"
#include "planner/validate/record_subjects.h"
#include "planner/validate/run_form.h"

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

void note_shards(const RunParallel& p, PlannedRun& out) {
  if (!p.zero_stage && out.plan.replicas() > 1)
    out.flags.push_back(fmt::format("ZeRO stage {} assumed", out.plan.zero_stage));
}

void choose_pipeline(const RunParallel& p, Plan& plan) {
  if (p.pp > 1) plan.parallel.flushes = p.flushes.value_or(1);
  if (p.schedule) set_choice(plan, "/parallel/schedule", *p.schedule);
  const bool takes_turns = plan.schedule == Schedule::kOneForwardOneBackward ||
                           plan.schedule == Schedule::kGpipe ||
                           plan.schedule == Schedule::kInterleaved;
  if (p.interleave.value_or(1) < 2 || !takes_turns) return;
  plan.schedule = Schedule::kInterleaved;
  plan.parallel.chunks = *p.interleave;
}

// Returns the GPUs of the job that share the peer link, of a domain that may be larger than what
// the job uses of it: a node that is used in part stays a node, and of several domains the job has
// as much of each, of the fewest that share it evenly [assumed], as build_cluster.cpp has it.
int used_domain(const RunHardware& stated, const HardwareCatalogue& catalogue,
                const Cluster& cluster) {
  const int in_node = cluster.node.devices_per_node;
  const int domain = *stated.nvlink_domain;
  if (stated.system) {
    const SystemFacts& system = catalogue.system(*stated.system);
    if (!system.is_rack() && domain == system.devices_per_node) return std::min(domain, in_node);
  }
  const bool cuts_nodes = domain % in_node != 0 && domain < cluster.devices();
  if (domain <= in_node || cuts_nodes) return domain;
  const int most = domain / in_node;
  int domains = (cluster.nodes + most - 1) / most;
  while (cluster.nodes % domains != 0) ++domains;
  return cluster.devices() / domains;
}

Reason choose_domain(const RunHardware& stated, const HardwareCatalogue& catalogue,
                     PlannedRun& out) {
  if (!stated.nvlink_domain) return std::nullopt;
  Cluster& cluster = out.cluster;
  const int in_node = cluster.node.devices_per_node;
  const int domain = used_domain(stated, catalogue, cluster);
  cluster.fast_link_domain = domain == in_node ? 0 : domain;
  if (domain == in_node) return std::nullopt;
  if (domain % in_node != 0 && in_node % domain != 0)
    return not_modelled("a domain of peer links that cuts nodes");
  if (cluster.node.topology.peer_shape.kind != PeerKind::kSwitch)
    return not_modelled("a domain of peer links without a switch");
  return std::nullopt;
}

// The stated ports are those of a switch's GPUs together; all of them carry what was carried.
void choose_ports(double per_gpu, PlannedRun& out) {
  TopologySpec& wires = out.cluster.node.topology;
  const double all = wires.nic.capacity.value * wires.nics_per_switch;
  const double ports = per_gpu * wires.gpus_per_switch;
  wires.nics_per_switch = std::max(1, static_cast<int>(std::lround(ports)));
  wires.nic.capacity.value = all / wires.nics_per_switch;
  if (wires.nics_per_switch != ports)
    out.flags.push_back(fmt::format("{} network ports of {} GPUs instead of {:.4g}",
                                    wires.nics_per_switch, wires.gpus_per_switch, ports));
}

}  // namespace

Reason choose_parallel(const RunRecord& run, const StackProfile& stack, PlannedRun& out) {
  const RunParallel& p = run.parallel;
  Plan& plan = out.plan;
  if (p.pp > 1 && !p.stage_layers && !said(run, "/pipeline/layout").empty())
    return not_modelled("a pipeline layout in other letters than E, t, m and L");
  if (p.schedule == "interleaved" && p.interleave.value_or(1) < 2)
    return "interleaved pipeline of chunks that are not stated";
  plan.parallel = {.dp = p.dp,
                   .tp = p.tp,
                   .pp = p.pp,
                   .sequence_parallel = p.tp > 1 && p.sequence_parallel.value_or(false)};
  plan.parallel.cp = p.cp.value_or(1);
  plan.parallel.ring = ring_of(p);
  const bool plain = !run.model.window.tokens && !run.model.attention_sinks.value_or(false);
  if (plan.parallel.ring > 1 && !p.ring && !p.cp_communication && !plain) {
    plan.parallel.ring = 1;
    out.flags.emplace_back("context parallel ranks that exchange heads assumed");
  }
  if (p.order) set_choice(plan, "/parallel/order", *p.order);
  choose_shards(run, stack, plan);
  note_shards(p, out);
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

Reason choose_links(const RunRecord& run, const HardwareCatalogue& catalogue, PlannedRun& out) {
  const RunHardware& stated = run.hardware;
  if (Reason why = choose_domain(stated, catalogue, out)) return why;
  if (stated.ports_per_gpu && out.cluster.nodes > 1) choose_ports(*stated.ports_per_gpu, out);
  return std::nullopt;
}

}  // namespace zplan
