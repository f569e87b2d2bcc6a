#include "planner/search/knobs.h"

#include <algorithm>
#include <utility>

#include "hwprofiles/seating.h"
#include "models/model_formulas.h"
#include "planner/program/job/limits.h"

namespace zplan {
namespace {

// Layers gathered or reduced together.
constexpr std::int32_t kUnitLayers[] = {2, 4};

}  // namespace

bool has_rings(const Plan& plan) {
  const StatePlacement& at = plan.placement;
  return plan.zero_stage >= 2 || at.params != Tier::kGpu || at.grads != Tier::kGpu;
}

std::vector<Plan> sharding_groups(const Plan& plan, std::int64_t near) {
  const auto group = static_cast<std::int32_t>(near / plan.parallel.tp);
  if (plan.zero_stage == 0 || group < 2 || group >= plan.replicas()) return {};
  if (plan.replicas() % group != 0) return {};
  Plan grouped = plan;
  grouped.parallel.shards = group;
  return {grouped};
}

std::vector<Plan> pipeline_first(const Plan& plan, std::int64_t near) {
  const bool spans_nodes = plan.parallel.ranks() > near;
  if (plan.parallel.pp == 1 || plan.replicas() == 1 || !spans_nodes) return {};
  Plan turned = plan;
  turned.order = RankOrder::kPipelineFirst;
  return {turned};
}

std::vector<Plan> larger_units(const Plan& plan) {
  std::vector<Plan> result;
  if (!plan.gather.by_layer() || plan.replicas() == 1) return result;
  for (const std::int32_t layers : kUnitLayers) {
    result.push_back(plan);
    result.back().gather = Gather::of_layers(layers);
  }
  return result;
}

namespace {

// Depths tried on the winner, in gather units.
constexpr std::int32_t kPrefetchDepths[] = {0, 2, 4};
// Parts of the layers that are recomputed, tried on the winner, in eighths.
constexpr std::int32_t kEighths[] = {1, 2, 4, 6, 7};
// Chunks of layers on a stage, tried on the winner.
constexpr std::int32_t kChunks[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24};
// Layers with one checkpoint, tried on the winner.
constexpr std::int32_t kCheckpointLayers[] = {2, 4};

Plan without_prefetch(Plan plan) {
  plan.prefetch = 0;
  return plan;
}

// Of a plan that does not fit: what its knobs allow, in the order in which they are tried.
class SmallerPlans {
 public:
  SmallerPlans(const ModelConfig& model, const Pins& pins)
      : shape_(shape_of(model)),
        prefetch_(!pins.has("/gather/prefetch")),
        tiles_(pins.tunes_units),
        pins_(pins) {}

  std::vector<Plan> of(const Plan& plan) const {
    std::vector<Plan> result = of_any(plan);
    std::erase_if(result, [this](const Plan& next) { return !pins_.allows(next); });
    return result;
  }

 private:
  std::vector<Plan> of_any(const Plan& plan) const {
    std::vector<Plan> result;
    if (!has_rings(plan)) return result;
    Plan next = plan;
    if (prefetch_ && plan.prefetch > 0) result.push_back(next = without_prefetch(plan));
    if (!tiles_ || plan.gather.by_layer()) return result;
    while (true) {
      next.gather = Gather::in_tiles(2 * next.gather.tiles());
      if (illegal(next, shape_)) return result;
      result.push_back(next);
    }
  }

  const ModelShape shape_;
  bool prefetch_, tiles_;
  const Pins pins_;
};

std::vector<Plan> prefetch_depths(const Plan& plan) {
  std::vector<Plan> result;
  if (plan.zero_stage < 3) return result;
  for (const std::int32_t depth : kPrefetchDepths) {
    if (depth == plan.prefetch) continue;
    result.push_back(plan);
    result.back().prefetch = depth;
  }
  return result;
}

// The first layers in full, where a pipeline has most micro-batches in flight, the others not.
std::vector<Plan> recompute_splits(const Plan& plan, std::int32_t layers) {
  const bool plain = plan.placement.activations == Tier::kGpu && !plan.partition_activations;
  if (!plan.all_full() || !plain) return {};
  std::vector<Plan> result;
  for (const std::int32_t eighths : kEighths) {
    const std::int32_t full = layers * eighths / 8;
    if (full == 0 || full == layers) continue;
    result.push_back(plan);
    result.back().recompute = {{Recompute::kFull, full}, {Recompute::kNone, 0}};
  }
  return result;
}

// Fewer checkpoints; in the room that they leave larger micro-batches.
std::vector<Plan> several_per_checkpoint(const Plan& plan, bool micro_batch_is_free) {
  std::vector<Plan> result;
  if (!plan.all_full() || plan.checkpoint_layers > 1) return result;
  for (const std::int32_t layers : kCheckpointLayers) {
    Plan several = plan;
    several.checkpoint_layers = layers;
    result.push_back(several);
    if (!micro_batch_is_free || plan.micro_steps() % 2 != 0) continue;
    several.batch.micro_batch *= 2;
    result.push_back(several);
  }
  return result;
}

// The host updates a layer as soon as backward has its gradients.
std::vector<Plan> update_beside_backward(const Plan& plan) {
  if (plan.placement.optimizer == Tier::kGpu || plan.overlap.optimizer) return {};
  Plan beside = plan;
  beside.overlap.optimizer = true;
  return {beside};
}

// All tokens of an expert group with few ranks are fewer bytes than the rows of each.
std::vector<Plan> tokens_gathered(const Plan& plan) {
  if (plan.parallel.ep == 1 || plan.dispatcher == Dispatcher::kAllGather) return {};
  Plan gathered = plan;
  gathered.dispatcher = Dispatcher::kAllGather;
  return {gathered};
}

// Ranks that leave devices of their node idle take those that share least.
std::vector<Plan> spread_ranks(const Plan& plan, const HwProfile& node) {
  const std::int64_t ranks = plan.parallel.ranks();
  if (ranks >= node.devices_per_node) return {};
  Plan spread = plan;
  spread.gpus = spread_devices(node.topology, static_cast<int>(ranks));
  return {spread};
}

// Several chunks of layers on each rank, whose waves fill the pipeline sooner
// [Narayanan21 sec 2.2], and schedules that put weight gradients into its bubbles [Qi24].
std::vector<Plan> other_schedules(const Plan& plan) {
  if (plan.parallel.pp == 1 || plan.schedule != Schedule::kOneForwardOneBackward) return {};
  std::vector<Plan> result;
  for (const std::int32_t chunks : kChunks) {
    Plan& next = result.emplace_back(plan);
    next.schedule = Schedule::kInterleaved;
    next.parallel.chunks = chunks;
    next.stage_layers.clear();
  }
  for (const Schedule schedule : {Schedule::kZeroBubbleV, Schedule::kZeroBubbleH1}) {
    Plan& next = result.emplace_back(plan);
    next.schedule = schedule;
    next.stage_layers.clear();
  }
  return result;
}

// Layers such that the output head counts as the layers it has the parameters of. [derived] work is
// in proportion to the parameters of matrix products.
std::vector<Plan> weighed_stages(const Plan& plan, const ModelConfig& model) {
  const std::int32_t pp = plan.parallel.pp;
  if (pp == 1 || plan.pieces() > pp) return {};
  const auto modules = static_cast<double>(model.mtp_layers);
  const double head = (1 + modules) * static_cast<double>(model.vocab) *
                          static_cast<double>(model.hidden) /
                          static_cast<double>(layer_parameter_count(model)) +
                      modules;
  const double share = (static_cast<double>(model.layers) + head) / pp;
  const auto last = static_cast<std::int32_t>(std::max(1.0, share - head));
  const auto others = static_cast<std::int32_t>(model.layers) - last;
  Plan weighed = plan;
  weighed.stage_layers.clear();
  for (std::int32_t stage = 0; stage < pp - 1; ++stage) {
    const bool one_more = stage >= pp - 1 - others % (pp - 1);  // the first hold most in flight
    weighed.stage_layers.push_back(others / (pp - 1) + (one_more ? 1 : 0));
  }
  weighed.stage_layers.push_back(last);
  for (std::int32_t stage = 0; stage < pp; ++stage) {
    const auto index = static_cast<std::size_t>(stage);
    if (weighed.stage_layers[index] != plan.layers_of_piece(model.layers, stage)) return {weighed};
  }
  return {};
}

std::vector<Knob> legal_only(std::vector<Knob> knobs, const ModelConfig& model) {
  for (Knob& knob : knobs)
    knob = [turn = std::move(knob), shape = shape_of(model)](const Plan& plan) {
      std::vector<Plan> plans = turn(plan);
      std::erase_if(plans, [&](const Plan& p) { return illegal(p, shape).has_value(); });
      return plans;
    };
  return knobs;
}

}  // namespace

Evaluator with_free_knobs(Evaluator exact, const ModelConfig& model, const Pins& pins) {
  Evaluator free = exact;
  const SmallerPlans smaller(model, pins);
  free.estimate = [ask = exact.estimate, smaller](const Plan& plan) {
    Estimate estimate = ask(plan);
    if (!estimate.infeasible) return estimate;
    for (const Plan& other : smaller.of(plan)) {
      Estimate next = ask(other);
      if (next.infeasible && !estimate.infeasible) continue;
      const bool is_lower = estimate.infeasible || next.bound < estimate.bound;
      if (is_lower) estimate = std::move(next);
    }
    return estimate;
  };
  if (exact.traffic)
    free.traffic = [estimate = exact.estimate, ask = exact.traffic, smaller](const Plan& plan) {
      Seconds least = ask(plan);
      for (const Plan& other : smaller.of(plan))
        if (!estimate(other).infeasible) least = std::min(least, ask(other));
      return least;
    };
  if (exact.least_gpu)
    free.least_gpu = [ask = exact.least_gpu, smaller](const Plan& plan) {
      Bytes least = ask(plan);
      for (const Plan& other : smaller.of(plan)) least = std::min(least, ask(other));
      return least;
    };
  free.fit = [estimate = exact.estimate, ask = exact.fit, smaller](const Plan& plan) {
    std::vector<Plan> plans = smaller.of(plan);
    plans.insert(plans.begin(), plan);
    const Plan last = std::move(plans.back());
    plans.pop_back();
    for (const Plan& next : plans) {
      if (estimate(next).infeasible) continue;
      Fit fit = ask(next);
      if (!fit.infeasible) return fit;
    }
    return ask(last);
  };
  return free;
}

std::vector<Plan> with_other_schedules(const Plan& plan, const ModelConfig& model,
                                       const Pins& pins) {
  if (pins.has("/parallel/schedule") || pins.has("/parallel/chunks")) return {};
  Plan plain = plan;
  // A unit of several layers may be more than a chunk.
  if (plan.gather.by_layer() && !pins.has("/gather/unit")) plain.gather = Gather::kLayer;
  std::vector<Plan> plans = other_schedules(plain);
  std::erase_if(plans, [&, shape = shape_of(model)](const Plan& other) {
    return illegal(other, shape).has_value();
  });
  return plans;
}

std::vector<Knob> free_knobs(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  std::vector<Knob> knobs;
  if (!pins.has("/recompute"))
    knobs.emplace_back([layers = static_cast<std::int32_t>(model.layers)](const Plan& plan) {
      return recompute_splits(plan, layers);
    });
  if (!pins.has("/checkpoint_layers"))
    knobs.emplace_back([is_free = !pins.has("/batch/micro_batch")](const Plan& plan) {
      return several_per_checkpoint(plan, is_free);
    });
  knobs.emplace_back(
      [model, pins](const Plan& plan) { return with_other_schedules(plan, model, pins); });
  if (!pins.has("/parallel/order"))
    knobs.emplace_back(
        [near = cluster.island()](const Plan& plan) { return pipeline_first(plan, near); });
  if (!pins.has("/parallel/shards"))
    knobs.emplace_back(
        [near = cluster.island()](const Plan& plan) { return sharding_groups(plan, near); });
  if (!pins.has("/parallel/stage_layers"))
    knobs.emplace_back([model](const Plan& plan) { return weighed_stages(plan, model); });
  if (!pins.has("/parallel/gpus"))
    knobs.emplace_back(
        [node = cluster.node](const Plan& plan) { return spread_ranks(plan, node); });
  if (!pins.has("/overlap/optimizer")) knobs.emplace_back(update_beside_backward);
  if (model.experts && !pins.has("/experts/dispatcher")) knobs.emplace_back(tokens_gathered);
  if (!pins.has("/gather/prefetch")) knobs.emplace_back(prefetch_depths);
  if (pins.tunes_units) knobs.emplace_back(larger_units);
  return legal_only(std::move(knobs), model);
}

}  // namespace zplan
