#include "planner/search/time_floor.h"

#include <algorithm>

#include "planner/lower/lower.h"
#include "planner/plan/choices.h"
#include "planner/program/instances/edges.h"
#include "planner/search/counted_layers.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

bool is_uniform(const Plan& plan) { return plan.recompute.size() == 1; }

// Gradients that are not partitioned are added to where they are; from ZeRO 2 on backward writes
// them anew. See planner/lower/gradients.h. Parameters that are cast are always gathered.
std::int32_t least_zero_stage(const Plan& plan) {
  if (plan.casts_params() || plan.train.base == BaseType::kF32) return 3;
  return plan.zero_stage < 2 ? 0 : 2;
}

// Of all parallelism only what cuts the operands of kernels decides how long one takes.
bool spreads_kernels(const Decision& row) {
  return row.pointer.starts_with("/parallel/") && !row.cuts_kernels;
}

std::vector<std::int64_t> cuts_of(const Plan& plan) {
  static const std::vector<const Decision*> kCuts = [] {
    std::vector<const Decision*> rows;
    for (const Decision& row : kChoices)
      if (row.cuts_kernels) rows.push_back(&row);
    return rows;
  }();
  std::vector<std::int64_t> cuts;
  for (const Decision* row : kCuts) {
    const Setting setting = row->field.get(plan);
    const bool* const is_switch = std::get_if<bool>(&setting);
    cuts.push_back(is_switch != nullptr ? *is_switch : std::get<std::int64_t>(setting));
  }
  return cuts;
}

bool adds_gradients(const Plan& plan) { return plan.micro_steps() > plan.updates(); }

// The simplest plan with the same kernels, on one stage of as many replicas as share experts. What
// is recomputed in some layers only is left out. Units by layer have the fewest kernels; a model
// that refuses them has only plans by operator.
Plan representative(Plan plan, const ModelShape& model) {
  const std::int64_t micro_steps = adds_gradients(plan) ? 2 : 1;
  plan.batch.global_batch = plan.batch.micro_batch * micro_steps * plan.parallel.expert_replicas();
  for (const Decision& row : kChoices)
    if (spreads_kernels(row)) row.field.set(plan, row.plain());
  plan.parallel.dp = plan.parallel.expert_replicas();
  plan.zero_stage = least_zero_stage(plan);
  plan.placement = {};
  plan.partition_activations = plan.delayed_update = plan.overlap.optimizer = false;
  plan.overlap.exchange = plan.overlap.weight_gradients = false;
  plan.checkpoint_layers = 1;
  if (!is_uniform(plan)) plan.recompute = {{}};
  if (plan.gather.tiles() > 1) return plan;
  plan.gather = Gather::kLayer;
  if (illegal(plan, model)) plan.gather = Gather::kOperator;
  return plan;
}

// Of layers that take turns a piece of the model may have none but those with a window, whose
// attention does least.
ModelConfig least_of(const Plan& plan, ModelConfig model) {
  if (plan.pieces() > 1) model.layer.full_layers = 0;
  return model;
}

int code_of(const PrecisionRecipe& r) {
  int code = 0;
  for (const DType dtype : {r.param, r.grad, r.master, r.moments})
    code = code * 16 + static_cast<int>(dtype);
  code = code * 4 + static_cast<int>(r.grad_cast);
  return code * 4 + (r.separate_master ? 2 : 0) + (r.main_grad ? 1 : 0);
}

// Whether all groups of ranks that work on a layer together meet as fast as those of one stage by
// itself: links from any device to any other are alike, and the ranks of a replica, or of those
// that share experts, follow each other.
bool meets_alike(const Plan& plan, const Cluster& cluster) {
  const TopologySpec& links = cluster.node.topology;
  if (cluster.node.cores != nullptr || !cluster.network.is_ideal() || !links.gpu_peer ||
      links.peer_shape.kind != PeerKind::kSwitch)
    return false;
  const Parallel& p = plan.parallel;
  return p.pp == 1 || (p.ep == 1 && p.cp == 1) || plan.order == RankOrder::kDataFirst;
}

}  // namespace

KernelTimes TimeFloors::times_of(const Plan& plan) {
  KernelTimes times = kernel_times(plan);
  // Where layers are recomputed differently, or several together, one need not wait for another.
  if (!is_uniform(plan) || plan.checkpoint_layers > 1)
    times.between.recompute = times.between.backward = {};
  return times;
}

Seconds TimeFloors::of(const Plan& plan, const StagePieces& stages,
                       std::span<const Seconds> turns) {
  const KernelTimes times = times_of(plan);
  const auto micro_steps = static_cast<double>(plan.micro_steps());
  const std::int32_t pieces = plan.pieces();
  const bool in_order = ends_in_order(plan);
  const auto turn_of = [&](std::size_t stage) {
    return stage < turns.size() ? turns[stage] : Seconds{};
  };
  Seconds floor{}, before{}, passed{};
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    Seconds once{};
    for (const PieceInFlight& at : stages[stage]) {
      const auto layers = static_cast<double>(counted_layers(plan, model_, at.piece));
      const double follow = std::max(0.0, layers - 1);
      once += times.layer.sum() * layers + times.between.sum() * follow;
      // Of several pieces the first may leave the gradient of the embedding differently from one
      // that adds to that of the head.
      if (pieces == 1) once += times.embedding.sum();
      if (at.piece == pieces - 1) once += times.head.sum();
      if (!in_order) continue;
      passed += (times.layer.forward + times.layer.backward) * layers;
      passed += (times.between.forward + times.between.backward) * follow;
    }
    floor = std::max(floor, once * micro_steps + turn_of(stage));
    if (in_order) floor = std::max(floor, before + once * micro_steps + turn_of(0));
    before = passed;
  }
  return floor * sim::kLeastOfSteady;
}

std::optional<Seconds> TimeFloors::before(const Plan& plan, const StagePieces& stages,
                                          std::size_t stage) {
  if (!ends_in_order(plan)) return std::nullopt;
  const KernelTimes times = times_of(plan);
  Seconds passed{};
  for (std::size_t j = 0; j < stage; ++j) {
    const auto layers = static_cast<double>(counted_layers(plan, model_, stages[j].front().piece));
    passed += (times.layer.forward + times.layer.backward) * layers;
    passed += (times.between.forward + times.between.backward) * std::max(0.0, layers - 1);
  }
  return passed;
}

KernelTimes TimeFloors::kernel_times(const Plan& plan) {
  const RecomputeRun run = is_uniform(plan) ? plan.recompute.front() : RecomputeRun{};
  // Work beside an exchange may fill all that a layer by itself would wait for it.
  const bool in_turns = plan.overlap.exchange || plan.overlap.weight_gradients;
  const bool waits = meets_alike(plan, cluster_) && !in_turns;
  const Key key{cuts_of(plan),
                (plan.zero_stage < 2),
                plan.gather.tiles(),
                adds_gradients(plan),
                static_cast<std::int32_t>(run.mode),
                run.operators.bits(),
                plan.head_chunks,
                plan.batch.micro_batch,
                plan.batch.sequence,
                code_of(plan.precision),
                plan.dropout,
                plan.pieces() > 1,
                plan.train,
                plan.kernel_set,
                plan.capacity_factor,
                plan.expert_imbalance,
                plan.dispatcher,
                plan.low_precision.keeps_codes,
                waits};
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
  }
  const Plan simple = representative(plan, shape_of(model_));
  const ModelConfig model = least_of(plan, model_);
  Job job = lower_unordered(simple, model);
  if (waits)
    for (RankClass& c : job.classes) derive_data_edges(c.program, ImpliedEdges::kMayStay);
  const KernelTimes times =
      pass_times(job, model_.layers, model_.first_layers(),
                 model_.vision ? Behind::kTower : Behind::kModules, waits, cluster_, wires_);
  const std::lock_guard lock(mutex_);
  return known_.emplace(key, times).first->second;
}

Seconds time_floor(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  return TimeFloors(model, cluster).of(plan, in_flight_of_stages(plan));
}

}  // namespace zplan
