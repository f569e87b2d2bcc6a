#include <fmt/format.h>

#include <algorithm>

#include "planner/plan/choice_text.h"
#include "planner/plan/decision.h"
#include "planner/validate/record_subjects.h"

namespace zplan {
namespace {

// [derived] Software that drops nothing makes room for the rows that come. Routing that is forced
// to be even gives each rank the mean; how uneven a router is that was trained is known only where
// it is stated, and taken as usual else.
constexpr double kEven = 1;

// Whether experts can be spread over so many ranks only if tensor parallel ones have whole ones.
bool only_whole(const Parallel& ranks) {
  return ranks.dp % ranks.ep != 0 && ranks.ep % ranks.tp == 0 &&
         ranks.dp * ranks.tp % ranks.ep == 0;
}

// Software that does not say so puts nothing beside the exchange.
void choose_overlap(const RunRecord& run, Plan& plan) {
  const RunParallel& stated = run.parallel;
  plan.overlap.exchange = stated.overlap_exchange.value_or(false);
  plan.overlap.weight_gradients = stated.overlap_weight_gradients.value_or(false);
  plan.overlap.shared_expert =
      !run.model.shared_expert_ffn || stated.overlap_shared_expert.value_or(false);
}

// [AutoModel components/moe/layers.py: FakeBalancedGate] A token's k experts are neighbours, as if
// it chose from one group of k or, where k does not divide the experts, few more.
void choose_neighbours(ExpertShape& shape) {
  std::int64_t size = shape.per_token;
  while (shape.count % size != 0) ++size;
  shape.groups = shape.count / size;
  shape.groups_per_token = 1;
}

// [derived] from tables of DeepEP on B200: the rate in a node is in proportion to the
// multiprocessors, 12 to 24 of them, and links limit it where it reaches what is usual on H100.
void choose_links(std::int32_t multiprocessors, Cluster& cluster) {
  constexpr double kMeasured = 24;
  double& links = cluster.stack.token_links;
  const double most = StackRates{}.token_links;
  if (links < most) links = std::min(most, links * multiprocessors / kMeasured);
}

}  // namespace

Reason choose_experts(const RunRecord& run, PlannedRun& out) {
  if (!run.model.experts) return std::nullopt;
  const RunExperts& stated = run.experts;
  Parallel& ranks = out.plan.parallel;
  ranks.ep = run.parallel.ep.value_or(1);
  if (stated.tp && *stated.tp != ranks.tp) ranks.expert_tp = *stated.tp;
  if (!stated.tp && only_whole(ranks)) {
    ranks.expert_tp = 1;
    out.flags.emplace_back("whole experts on each tensor parallel rank assumed");
  }
  if (ranks.expert_tp > 1)
    return not_modelled(
        fmt::format("experts cut over {} ranks, all else over {}", *stated.tp, ranks.tp));
  const std::int64_t across = std::int64_t{ranks.dp} * (ranks.folds_experts() ? ranks.tp : 1);
  if (ranks.cp > 1 && across % ranks.ep != 0 && across * ranks.cp % ranks.ep == 0)
    return not_modelled("experts over context parallel ranks");
  if (const std::string inside = wrong_about_domain(run, out.cluster.domain()); !inside.empty())
    return "contradictory record: /experts/in_nvlink_domain: expected " + inside;
  out.plan.capacity_factor = stated.capacity_factor.value_or(0);
  const bool is_even = stated.routing == "balanced" || stated.routing == "random";
  if (!stated.capacity_factor)
    out.plan.expert_imbalance = stated.imbalance.value_or(is_even ? kEven : kUsualImbalance);
  if (stated.routing == "balanced" && out.cluster.stack.even_neighbours)
    choose_neighbours(*out.model.experts);
  if (stated.fused_mlp.value_or(false)) out.cluster.stack.grouped_apart = 0;
  if (!is_even && !stated.imbalance) {
    out.flags.push_back(
        fmt::format("busiest experts taken as having {} times the mean to do", kUsualImbalance));
    out.stack_stated = false;
  }
  if (run.model.routed.load_balancing == "sinkhorn") {
    out.flags.emplace_back("routing without the iterations of Sinkhorn");
    out.stack_stated = false;
  }
  if (!exchanges_experts(run)) return std::nullopt;
  choose_overlap(run, out.plan);
  if (ranks.tp > 1 && !ranks.routes_own_tokens()) {
    out.flags.emplace_back("each tensor parallel rank exchanges the rows of all its tokens");
    out.stack_stated = false;
  }
  if (!stated.dispatcher) return std::nullopt;
  // Megatron-Core's flexible dispatcher is DeepEP where it is not told to be another.
  if (stated.communication_sms.value_or(0) > 0)
    choose_links(*stated.communication_sms, out.cluster);
  const std::string word = *stated.dispatcher == "flex" ? "deepep" : *stated.dispatcher;
  if (std::ranges::find(kWordsOf<Dispatcher>, word) != kWordsOf<Dispatcher>.end()) {
    set_choice(out.plan, "/experts/dispatcher", word);
  } else {
    out.flags.push_back(
        fmt::format("experts exchanged by all-to-all instead of {}", *stated.dispatcher));
    out.stack_stated = false;
  }
  return std::nullopt;
}

}  // namespace zplan
