// Which single change of a plan would make it fit.
#include <fmt/format.h>

#include <vector>

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
  add("recompute full").recompute = Recompute::kFull;
  add("gather unit operator").gather = GatherUnit::kOperator;
  add("activations on cpu").placement.activations = Tier::kCpu;
  add("optimizer on cpu").placement.optimizer = Tier::kCpu;
  add("gradients on cpu").placement.grads = Tier::kCpu;
  add("parameters on cpu").placement.params = Tier::kCpu;
  for (std::int32_t stage = plan.zero_stage + 1; stage <= 3; ++stage)
    add(fmt::format("ZeRO stage {}", stage)).zero_stage = stage;
  for (std::int64_t micro = plan.batch.micro_batch - 1; micro >= 1; --micro)
    if (plan.batch.global_batch % (micro * plan.parallel.dp) == 0)
      add(fmt::format("micro-batch {}", micro)).batch.micro_batch = micro;
  if (plan.parallel.pp == 1 && cluster.devices() >= 2) {
    const bool room = 2 * std::int64_t{plan.parallel.dp} <= cluster.devices();
    const std::int32_t dp = room ? plan.parallel.dp : plan.parallel.dp / 2;
    add(room ? "pp 2" : fmt::format("pp 2 with dp {}", dp)).parallel = {dp, 2};
  }
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
