#include "planner/cli/explain/search_explanation.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "planner/cli/frame/words.h"
#include "planner/cost/bounds.h"
#include "planner/lower/lower.h"
#include "planner/search/explanation_parts.h"
#include "planner/search/time_floor.h"

namespace zplan {
namespace {

constexpr std::string_view kSearch = "planner/search/search.h";
constexpr std::string_view kFloor = "planner/search/time_floor.h";
constexpr double kSame = 1e-9;  // relative; roundoff of sums

bool same(Seconds a, Seconds b) { return std::abs(a.value - b.value) <= kSame * a.value; }

std::string words_of(const Plan& plan) {
  const Parallel& p = plan.parallel;
  return fmt::format("{}, dp {} x tp {} x pp {}, micro-batch {}, gathered by {}",
                     name(family_of(plan)), p.dp, p.tp, p.pp, plan.batch.micro_batch,
                     gather_words(plan.gather));
}

// The bound of a plan, in terms of the rung that it comes from.
std::vector<Term> bound_terms(const Candidate& open, const ModelConfig& model,
                              const Cluster& cluster) {
  TimeFloors floors(model, cluster);
  const StagePieces stages = in_flight_of_stages(open.plan);
  if (same(open.bound, floors.of(open.plan, stages))) {
    std::vector<Term> terms;
    double rest = open.bound.value;
    for (const FloorTerm& one : floors.terms(open.plan, stages)) {
      terms.push_back(seconds_term(one.what, one.time, kFloor));
      rest -= one.time.value;
    }
    terms.push_back(term("what a step is steady to", rest, TermUnit::kSeconds, kFloor));
    return terms;
  }
  const Job job = lower(open.plan, model);
  const CostModel cost(job, cluster);
  const TimeBound bound = time_bound(cost, step_totals(cost));
  if (same(open.bound, bound.seconds))
    return {seconds_term(bound.resource + ": its work of a step, without a pause", bound.seconds,
                         "planner/cost/bounds.h")};
  return {seconds_term("floor of the plans that differ in units, tiles, order and prefetch",
                       open.bound, "planner/search/variants.h")};
}

void add_gap(const SearchResult& search, const ModelConfig& model, const Cluster& cluster,
             Explanations& out) {
  const Candidate& fastest = search.fastest ? *search.fastest : *search.best;
  const double gap = search.stats.gap;
  const Seconds step = *fastest.step;
  const Seconds least = step * (1 - gap);
  out.push_back(quotient(
      "search.gap", gap, TermUnit::kShare,
      "(fastest simulated - least bound of what is neither simulated nor proven not to fit) / "
      "fastest",
      {seconds_term("fastest - least bound", step - least, "search.least_bound_s")},
      {seconds_term("fastest step simulated", step, kSimulated)}));
  const bool is_named = search.open && gap > 0 && same(search.open->bound, least);
  if (!is_named) {
    out.push_back(single("search.least_bound_s", least.value, TermUnit::kSeconds,
                         gap > 0 ? "least floor of a group of plans that was not looked into"
                                 : "no plan that is not simulated could be faster",
                         kSearch));
    return;
  }
  out.push_back(sum_of("search.least_bound_s", search.open->bound.value, TermUnit::kSeconds,
                       "least bound of what is neither simulated nor proven not to fit: " +
                           words_of(search.open->plan),
                       bound_terms(*search.open, model, cluster)));
}

}  // namespace

void explain_search(const SearchResult& search, const ModelConfig& model, const Cluster& cluster,
                    Explanations& out) {
  const SearchStats& stats = search.stats;
  for (const auto& [what, count, formula] :
       {std::tuple("search.space", stats.space, "legal plans under the pins, with their variants"),
        std::tuple("search.set_aside", stats.set_aside,
                   "leaves that fit with their states closer to the GPU, too"),
        std::tuple("search.visited", stats.visited, "plans that were lowered and placed"),
        std::tuple("search.simulated", stats.simulated, "plans of the space that were simulated")})
    out.push_back(single(what, static_cast<double>(count), TermUnit::kNone, formula, kSearch));
  if (search.best) add_gap(search, model, cluster, out);
}

}  // namespace zplan
