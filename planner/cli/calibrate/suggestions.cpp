#include "planner/cli/calibrate/suggestions.h"

#include <algorithm>
#include <utility>

#include "planner/cli/frame/progress.h"
#include "planner/core/hash.h"
#include "planner/cost/reliance.h"
#include "planner/search/knobs.h"
#include "planner/search/leaf.h"

namespace zplan {
namespace {

constexpr std::size_t kMostContenders = 8;
constexpr std::size_t kMostTried = 12;  // plans of other families, for those
// [assumed] A plan that is predicted to take so much longer is not chosen whatever is measured.
constexpr double kWithin = 1.3;
constexpr std::size_t kShown = 5;
constexpr double kWorthTelling = 5e-4;  // saved, share of a step

// Of the losing families, that of the fastest left out, the best plan each that may be as fast,
// those with the least time first.
std::vector<Plan> losers(const SearchResult& search) {
  std::vector<std::pair<Seconds, const Plan*>> found;
  for (const Rejected& lost : search.rejected) {
    const Seconds least = lost.best.step.value_or(lost.best.bound);
    if (search.fastest && family_of(search.fastest->plan) == lost.family) continue;
    if (!lost.best.infeasible && lost.standing != Standing::kSetAside &&
        least < *search.best->step * kWithin)
      found.emplace_back(least, &lost.best.plan);
  }
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Plan> plans;
  for (const auto& [least, plan] : found) plans.push_back(*plan);
  return plans;
}

Rival simulated(const Plan& plan, const Answer& answer) {
  PlannedJob planned = build_job(plan, answer.model);
  sim::SimResult result =
      sim::simulate(planned.job, answer.cluster, {.find_reliances = true, .fingerprint = {}});
  return {plan, std::move(planned.job), fnv1a32(to_json(plan)), std::move(result)};
}

std::vector<Rival> rivals_of(const Answer& answer) {
  std::vector<Rival> rivals;
  rivals.push_back(simulated(answer.search.best->plan, answer));
  if (answer.search.fastest) rivals.push_back(simulated(answer.search.fastest->plan, answer));
  const Seconds limit = rivals.front().sim.period * kWithin;
  const Evaluator evaluator =
      with_free_knobs(make_evaluator(answer.model, answer.cluster), answer.model, answer.pins);
  std::size_t tried = 0;
  for (const Plan& plan : losers(answer.search)) {
    if (rivals.size() == kMostContenders || ++tried > kMostTried) break;
    Leaf leaf;
    leaf.candidate.plan = plan;
    fit(leaf, evaluator);
    if (leaf.out() || !(leaf.candidate.bound < limit)) continue;
    Rival rival = simulated(leaf.candidate.plan, answer);
    if (rival.sim.period < limit) rivals.push_back(std::move(rival));
  }
  return rivals;
}

// The constants that a measurement tells and that are not known exactly, in their order.
std::vector<std::string> told_by(const Measurement& measurement, const Knowledge& knowledge) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < knowledge.mean.size(); ++k) {
    const bool open = knowledge.covariance[k][k] > 0 || knowledge.slower[k] > 0;
    const bool read = std::ranges::any_of(
        measurement, [&](const Reading& reading) { return reading.reliances[k] != 0; });
    if (open && read) names.emplace_back(constant_name(static_cast<Constant>(k)));
  }
  return names;
}

}  // namespace

Suggestions find_suggestions(const PlanCommand& question) {
  Suggestions found{.answer = find_answer(question),
                    .contenders = {},
                    .chosen = 0,
                    .perfect = {},
                    .measurements = {}};
  const Answer& answer = found.answer;
  if (!fits(answer)) return found;
  Progress progress;
  progress.show("searching: simulating contenders");
  const std::vector<Rival> rivals = rivals_of(answer);
  std::vector<Contender> contenders;
  for (const Rival& rival : rivals)
    contenders.push_back({rival.sim.period, rival.sim.reliances, rival.key});
  const Knowledge knowledge = knowledge_of(answer.evidence, answer.cluster.node,
                                           kind_of(rivals.front().plan, answer.cluster));
  const PlanChoice choice(knowledge, contenders);
  for (std::size_t i = 0; i < rivals.size(); ++i)
    found.contenders.push_back(
        {rivals[i].plan, rivals[i].sim.period, choice.expected(i), choice.fastest_in(i)});
  found.chosen = choice.chosen();
  found.perfect = choice.perfect();
  std::vector<Benchmark> all = benchmarks(rivals, answer.cluster, answer.evidence);
  for (std::size_t i = 0; i < rivals.size(); ++i)
    all.push_back(step_benchmark(rivals, i, answer.evidence));
  for (Benchmark& benchmark : all) {
    Suggestion suggestion{std::move(benchmark), {}, {}, 0};
    const Measurement& measurement = suggestion.benchmark.measurement;
    suggestion.value = choice.value_of(measurement);
    suggestion.tells = told_by(measurement, knowledge);
    for (const Reading& reading : measurement)
      suggestion.uncertainty = std::max(suggestion.uncertainty, choice.uncertainty(reading));
    found.measurements.push_back(std::move(suggestion));
  }
  std::ranges::stable_sort(found.measurements, [](const Suggestion& a, const Suggestion& b) {
    return std::pair(-a.value.saving, -a.value.changes) <
           std::pair(-b.value.saving, -b.value.changes);
  });
  progress.clear();
  return found;
}

// Of steps only those of one plan.
std::vector<Suggestion> worth_telling(const Suggestions& suggestions) {
  std::vector<Suggestion> best;
  bool has_step = false;
  for (const Suggestion& suggestion : suggestions.measurements) {
    if (best.size() == kShown || suggestion.value.saving < kWorthTelling) break;
    const bool step = suggestion.benchmark.measurement.front().contender.has_value();
    if (step && std::exchange(has_step, true)) continue;
    best.push_back(suggestion);
  }
  return best;
}

}  // namespace zplan
