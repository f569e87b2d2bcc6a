// Which single change of a plan would make it fit.
#include <fmt/format.h>

#include <vector>

#include "hwprofiles/seating.h"
#include "planner/program/job/limits.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

struct Change {
  Plan plan;
  std::string words;
};

// In the order in which they are tried: what costs time only, then traffic, then more of both.
std::vector<Change> single_changes(const Plan& plan, const Cluster& cluster) {
  std::vector<Change> changes;
  const auto add = [&](std::string words) -> Plan& {
    return changes.emplace_back(Change{plan, std::move(words)}).plan;
  };
  add("slack 0").slack = 0;
  if (plan.effective(Recompute::kSelective) == Recompute::kSelective)
    add("recompute selective").recompute = {{Recompute::kSelective}};
  add("recompute full").recompute = {{Recompute::kFull}};
  if (plan.parallel.tp > 1) {
    add("sequence parallelism").parallel.sequence_parallel = true;
    add("partitioned checkpoints").partition_activations = true;
  }
  add("gather unit operator").gather = Gather::kOperator;
  for (std::int32_t tiles = 2 * plan.gather.tiles(); tiles <= kMaxTiles; tiles *= 2)
    add(fmt::format("{} tiles", tiles)).gather = Gather::in_tiles(tiles);
  for (const Tier tier : {Tier::kCpu, Tier::kNvme}) {
    const auto move = [&](const char* what, Tier StatePlacement::*state) {
      if (plan.placement.*state < tier)
        add(fmt::format("{} on {}", what, name(tier))).placement.*state = tier;
    };
    move("activations", &StatePlacement::activations);
    move("optimizer", &StatePlacement::optimizer);
    move("gradients", &StatePlacement::grads);
    move("parameters", &StatePlacement::params);
  }
  for (std::int32_t stage = plan.zero_stage + 1; stage <= 3; ++stage)
    add(fmt::format("ZeRO stage {}", stage)).zero_stage = stage;
  for (std::int64_t micro = plan.batch.micro_batch - 1; micro >= 1; --micro)
    if (plan.batch.global_batch % (micro * plan.parallel.dp) == 0)
      add(fmt::format("micro-batch {}", micro)).batch.micro_batch = micro;
  // Twice the tensor parallel ranks or stages, at the cost of replicas where no devices are left.
  const auto widen = [&](const char* what, std::int32_t Parallel::*size) {
    Parallel shape = plan.parallel;
    shape.*size *= 2;
    const bool room = shape.ranks() <= Seating(cluster, plan.gpus).devices();
    if (!room && shape.dp % 2 != 0) return;
    if (!room) shape.dp /= 2;
    const std::string words = fmt::format("{} {}", what, shape.*size);
    add(room ? words : fmt::format("{} with dp {}", words, shape.dp)).parallel = shape;
  };
  if (2 * plan.parallel.tp <= cluster.island()) widen("tp", &Parallel::tp);
  widen("pp", &Parallel::pp);
  return changes;
}

}  // namespace

std::string smallest_change(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
                            const Evaluator& evaluator) {
  for (const Change& change : single_changes(plan, cluster)) {
    if (change.plan == plan || illegal(change.plan, shape_of(model))) continue;
    if (evaluator.estimate(change.plan).infeasible) continue;
    if (!evaluator.fit(change.plan).infeasible) return change.words;
  }
  return {};
}

}  // namespace zplan
