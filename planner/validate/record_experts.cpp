#include <fmt/format.h>

#include "planner/validate/record_subjects.h"

namespace zplan {

// [derived] Software that drops nothing makes room for the rows that come. Routing that is forced
// to be even gives each rank the mean; how uneven a router is that was trained is known where it is
// stated only, and taken as even else.
constexpr double kEven = 1;

Reason choose_experts(const RunRecord& run, PlannedRun& out) {
  if (!run.model.experts) return std::nullopt;
  const RunExperts& stated = run.experts;
  Parallel& ranks = out.plan.parallel;
  ranks.ep = run.parallel.ep.value_or(1);
  if (stated.tp && *stated.tp != ranks.tp) ranks.expert_tp = *stated.tp;
  if (ranks.expert_tp > 1)
    return not_modelled(
        fmt::format("experts cut over {} ranks, all else over {}", *stated.tp, ranks.tp));
  const std::int64_t across = std::int64_t{ranks.dp} * (ranks.folds_experts() ? ranks.tp : 1);
  if (ranks.cp > 1 && across % ranks.ep != 0 && across * ranks.cp % ranks.ep == 0)
    return not_modelled("experts over context parallel ranks");
  if (const std::string inside = wrong_about_domain(run, out.cluster.domain()); !inside.empty())
    return "contradictory record: /experts/in_nvlink_domain: expected " + inside;
  out.plan.capacity_factor = stated.capacity_factor.value_or(0);
  if (!stated.capacity_factor) out.plan.expert_imbalance = stated.imbalance.value_or(kEven);
  if (stated.routing != "balanced" && !stated.imbalance) {
    out.flags.emplace_back("work of experts taken as even");
    out.stack_stated = false;
  }
  if (run.model.routed.load_balancing == "sinkhorn") {
    out.flags.emplace_back("routing without the iterations of Sinkhorn");
    out.stack_stated = false;
  }
  if (exchanges_experts(run) && stated.dispatcher && *stated.dispatcher != "alltoall") {
    out.flags.push_back(
        fmt::format("experts exchanged by all-to-all instead of {}", *stated.dispatcher));
    out.stack_stated = false;
  }
  return std::nullopt;
}

}  // namespace zplan
