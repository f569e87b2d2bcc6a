#include "planner/cli/explain/search_explanation.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "planner/cli/frame/words.h"
#include "planner/lower/lower.h"
#include "planner/search/explanation_parts.h"
#include "planner/search/job_bound.h"
#include "planner/search/outside_space.h"
#include "planner/search/time_floor.h"
#include "planner/search/variants.h"

namespace zplan {
namespace {

constexpr std::string_view kSearch = "planner/search/search.h";
constexpr std::string_view kOutside = "planner/search/outside_space.h";
constexpr std::string_view kFloor = "planner/search/time_floor.h";
constexpr double kSame = 1e-9;  // relative; roundoff of sums

bool same(Seconds a, Seconds b) { return std::abs(a.value - b.value) <= kSame * a.value; }

std::string words_of(const Plan& plan) {
  const Parallel& p = plan.parallel;
  return fmt::format("{}, dp {} x tp {} x pp {}, micro-batch {}, gathered by {}",
                     name(family_of(plan)), p.dp, p.tp, p.pp, plan.batch.micro_batch,
                     gather_words(plan.gather));
}

// A floor of kernels, and what comes to it.
std::vector<Term> floor_terms(const Plan& plan, const StagePieces& stages, Seconds bound,
                              TimeFloors& floors, std::string_view more) {
  std::vector<Term> terms;
  double rest = bound.value;
  for (const FloorTerm& one : floors.terms(plan, stages)) {
    terms.push_back(seconds_term(one.what, one.time, kFloor));
    rest -= one.time.value;
  }
  terms.push_back(term(std::string(more), rest, TermUnit::kSeconds, kFloor));
  return terms;
}

// The bound of a Job where it is this one.
std::vector<Term> job_bound_terms(const Plan& plan, Seconds bound, const ModelConfig& model,
                                  const Cluster& cluster) {
  if (illegal(plan, shape_of(model))) return {};
  TimeFloors floors(model, cluster);
  const StagePieces stages = in_flight_of_stages(plan);
  Job job = lower_unordered(plan, model);
  const JobBound own = bound_of_job(plan, job, cluster, floors, stages);
  if (same(bound, own.floor))
    return floor_terms(plan, stages, bound, floors, "what a step is steady to");
  if (same(bound, own.work.seconds))
    return {seconds_term(own.work.resource + ": its work of a step, without a pause",
                         own.work.seconds, "planner/cost/bounds.h")};
  if (same(bound, own.longest_path))
    return {seconds_term("longest path from an operation to the same one of the next step",
                         own.longest_path, "planner/cost/step_cycle.h")};
  if (same(bound, own.through_stages))
    return {
        seconds_term("first micro-batch through the stages before one, longest path through "
                     "that one, last micro-batch back, and to the next step",
                     own.through_stages, "planner/search/job_bound.h")};
  if (same(bound, own.with_turns))
    return floor_terms(plan, stages, bound, floors,
                       "at least, from the last kernel of a step to the first of the next");
  return {};
}

// The bound of a plan, in terms of the rung that it comes from: of its own Job, of that with the
// deepest prefetch, or of what it shares with others.
std::vector<Term> bound_terms(const Candidate& open, const ModelConfig& model,
                              const Cluster& cluster) {
  Plan deepest = open.plan;
  deepest.prefetch = kMostPrefetch;
  for (const Plan& plan : {open.plan, deepest})
    if (std::vector<Term> terms = job_bound_terms(plan, open.bound, model, cluster); !terms.empty())
      return terms;
  if (same(open.bound, make_evaluator(model, cluster).shared_work(deepest)))
    return {seconds_term("work that all plans share which differ in homes and prefetch alone",
                         open.bound, "planner/search/shared_work.h")};
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

void add_outside(const SearchResult& search, const Pins& pins, Explanations& out) {
  const std::vector<OutsideSpace> outside = outside_space(search.best->plan, pins);
  const std::string words =
      outside.empty() ? "none: the plan answered is one of the space"
                      : "tuned on plans that were found, so that neither gap nor proof cover it: " +
                            words_of(outside);
  out.push_back(single("search.outside_space", static_cast<double>(outside.size()), TermUnit::kNone,
                       "decisions of the plan answered that no plan of the space has, " + words,
                       kOutside));
}

}  // namespace

void explain_search(const SearchResult& search, const ModelConfig& model, const Cluster& cluster,
                    const Pins& pins, Explanations& out) {
  const SearchStats& stats = search.stats;
  for (const auto& [what, count, formula] :
       {std::tuple("search.space", stats.space, "legal plans under the pins, with their variants"),
        std::tuple("search.set_aside", stats.set_aside,
                   "leaves that fit with their states closer to the GPU, too"),
        std::tuple("search.visited", stats.visited, "plans that were lowered and placed"),
        std::tuple("search.simulated", stats.simulated, "plans of the space that were simulated")})
    out.push_back(single(what, static_cast<double>(count), TermUnit::kNone, formula, kSearch));
  const Cuts& cuts = stats.cuts;
  for (const auto& [what, count, formula] :
       {std::tuple("search.cuts.with_group", cuts.with_group,
                   "space - all others: by the floor that a group of plans shares"),
        std::tuple("search.cuts.shared", cuts.shared,
                   "plans too slow by what those that differ in homes alone have to do"),
        std::tuple("search.cuts.bytes", cuts.bytes, "plans that need more bytes than there are"),
        std::tuple("search.cuts.floor", cuts.floor, "plans whose own floor is too slow"),
        std::tuple("search.cuts.placement", cuts.placement, "plans placed that do not fit"),
        std::tuple("search.cuts.bound", cuts.bound, "plans whose Job has a bound that is too slow"),
        std::tuple("search.cuts.simulated", cuts.simulated, "plans that were simulated"),
        std::tuple("search.cuts.open", cuts.open, "plans that nothing has settled")})
    if (search.best)
      out.push_back(single(what, static_cast<double>(count), TermUnit::kNone, formula, kSearch));
  if (!search.best) return;
  add_gap(search, model, cluster, out);
  add_outside(search, pins, out);
}

}  // namespace zplan
