// What an answer says of its objective: the value, what else was tried, what is proven.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/cli/answer/objective.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/cost/goodput.h"

namespace zplan {

std::string percent_at_most(double share) {
  constexpr double kDigits = 1000, kRoundoff = 1e-9;
  return percent(std::ceil(share * kDigits - kRoundoff) / kDigits);
}

namespace {

// Of a plan that was found; null where there is none.
constexpr const char* kKeys[] = {
    "proven",         "proof", "gpus",     "gpu_hours_per_step", "gpu_hours_per_million_tokens",
    "money_per_step", "run",   "sequence", "gpu_free_bytes",     "within",
    "limit_s",        "tried"};

std::string_view device_word(const ObjectiveStep& step) { return step.on_cpu ? "worker" : "GPU"; }

double device_hours(const ObjectiveStep& step) {
  return static_cast<double>(step.ranks) * step.step.value / kSecondsPerHour;
}

double share_within(const ObjectiveQuestion& question) {
  return question.within < 0 ? kUsualWithin : question.within;
}

std::string short_number(double value) {
  return value < 1000 ? fmt::format("{:.3g}", value) : format_count(value);
}

// By how much another plan on one of the numbers tried could be cheaper at most.
double cost_gap(const CheapestRanks& cheapest, const ObjectiveStep& step, double gap) {
  const double cost = static_cast<double>(step.ranks) * step.step.value;
  double least = cost;
  for (const RankCount& count : cheapest.counts) {
    if (!count.why.empty()) continue;
    const bool own = count.ranks == step.ranks;
    least = std::min(least, own ? std::max(count.least_cost, cost * (1 - gap)) : count.least_cost);
  }
  return 1 - least / cost;
}

struct Proof {
  bool proven = false;
  std::string words;
};

Proof proof_of_cost(const CheapestRanks& cheapest, const ObjectiveStep& step, double gap) {
  if (cheapest.interrupted) return {false, "ended early: not all numbers were tried"};
  const double open = cost_gap(cheapest, step, gap);
  if (open <= kProvenGap)
    return {true,
            fmt::format("proven by this cost model: no plan of the space on a number tried is "
                        "over {} cheaper",
                        percent_at_most(open))};
  return {false, fmt::format("not proven: by what bounds them, plans on the numbers tried could "
                             "be up to {} cheaper",
                             percent_at_most(open))};
}

Proof proof_of_fewest(const FewestRanks& fewest, std::string_view device) {
  if (fewest.interrupted) return {false, "ended early: fewer may do"};
  if (fewest.most_without == 0) return {true, fmt::format("none is less than one {}", device)};
  return {true, fmt::format("proven: no plan of the space fits on fewer, of {} tried; on {}: {}",
                            count_of(fewest.tried, "number"), grouped(fewest.most_without),
                            fewest.misfit ? shortage(*fewest.misfit) : fewest.why)};
}

Proof proof_of_longest(const LongestSequence& longest) {
  if (longest.interrupted) return {false, "ended early: longer ones may fit"};
  if (longest.too_long == 0)
    return {true,
            longest.most == longest.positions
                ? fmt::format("no longer: the model has {} learned positions",
                              grouped(longest.positions))
                : fmt::format("no longer: plans have up to {} tokens", grouped(longest.most))};
  return {true, fmt::format("proven: no plan of the space fits with {} tokens, longer ones are "
                            "assumed not to: {}{}",
                            grouped(longest.too_long),
                            longest.misfit ? shortage(*longest.misfit) : longest.why,
                            longest.positions > 0 ? "" : "; no learned positions bound it")};
}

Proof proof_of_headroom(const MostHeadroom& headroom, double within) {
  if (headroom.proven())
    return {true, fmt::format("proven by this cost model: of plans with the usual prefetch and "
                              "units, or the next smaller that fit, at most {} slower than the "
                              "fastest found, none takes less; others were not tried",
                              percent(within))};
  return {false, fmt::format("not proven: {} of {} that may be fast enough simulated; by what "
                             "bounds them, others could take as little as {}",
                             grouped(headroom.simulated), count_of(headroom.candidates, "plan"),
                             format_bytes(headroom.least))};
}

Proof proof_of(const ObjectiveAnswer& objective, const ObjectiveStep& step, double gap) {
  if (objective.cheapest) return proof_of_cost(*objective.cheapest, step, gap);
  if (objective.fewest) return proof_of_fewest(*objective.fewest, device_word(step));
  if (objective.longest) return proof_of_longest(*objective.longest);
  if (objective.headroom)
    return proof_of_headroom(*objective.headroom, share_within(objective.question));
  return {gap <= kProvenGap, ""};
}

// "0.0267 GPU-hours a step, 0.0668 at 2.5 each"
std::string cost_words(const ObjectiveQuestion& question, const ObjectiveStep& step) {
  const double hours = device_hours(step);
  std::string out = fmt::format("{} {}-hours a step", short_number(hours), device_word(step));
  if (question.price > 0)
    out += fmt::format(", {} at {:g} each{}", short_number(hours * question.price), question.price,
                       question.has_profile_price ? " (profile)" : "");
  return out;
}

double steps_of(const ObjectiveQuestion& question, const ObjectiveStep& step) {
  return std::ceil(question.tokens / static_cast<double>(step.tokens));
}

Value run_value(const ObjectiveQuestion& question, const ObjectiveStep& step) {
  if (question.tokens <= 0) return nullptr;
  const double hours = steps_of(question, step) * device_hours(step);
  Sheet out{{"tokens", question.tokens},
            {"steps", steps_of(question, step)},
            {"gpu_hours", hours},
            {"money", question.price > 0 ? Value(hours * question.price) : Value()}};
  out.entry("", "{} tokens take {} {}-hours{} without failures (zplan goodput counts those)",
            {format_count(question.tokens), short_number(hours), device_word(step),
             question.price > 0 ? fmt::format(", {},", short_number(hours * question.price)) : ""});
  return out;
}

// Why a number has no plan in the answer.
Value note(const RankCount& count, bool is_own) {
  if (is_own) return "this plan";
  if (!count.is_legal) return {count.why, "no plan is legal"};
  if (!count.why.empty()) return count.why;
  if (count.passed_over) return "no cheaper, by what bounds it";
  return count.step ? "" : "not tried";
}

Value tried_value(const CheapestRanks& cheapest, const ObjectiveStep& step) {
  Table table({"gpus: GPUs", "step_s: step", "gpu_hours_per_step: GPU-hours a step", "note"});
  for (const RankCount& count : cheapest.counts) {
    const bool is_own = count.ranks == step.ranks;
    const double cost = is_own ? static_cast<double>(step.ranks) * step.step.value : count.cost;
    const bool is_known = is_own || count.step;
    table.row(
        {{"gpus", count.ranks},
         {"step_s", is_own ? Value(step.step) : Value(count.step)},
         {"gpu_hours_per_step",
          is_known ? Value(cost / kSecondsPerHour, short_number(cost / kSecondsPerHour)) : Value()},
         {"least_gpu_hours_per_step",
          count.why.empty() ? Value(count.least_cost / kSecondsPerHour) : Value()},
         {"note", note(count, is_own)}});
  }
  return {table.json(), table.text(kLabelWidth)};
}

}  // namespace

std::string objective_value(const ObjectiveAnswer& objective, const ObjectiveStep& step) {
  const ObjectiveQuestion& question = objective.question;
  switch (question.what) {
    case Objective::kFastest:
      return format_seconds(step.step);
    case Objective::kCheapest:
      return cost_words(question, step);
    case Objective::kFewestGpus:
      return count_of(step.ranks, device_word(step));
    case Objective::kLongestSequence:
      return count_of(objective.longest->tokens, "token");
    case Objective::kMostHeadroom:
      return fmt::format("{} of memory left on each {}, at most {} slower than the fastest found",
                         format_bytes(step.gpu_free), device_word(step),
                         percent(share_within(question)));
  }
  return "";
}

Sheet objective_sheet(const ObjectiveAnswer& objective, const std::optional<ObjectiveStep>& step,
                      double gap) {
  const ObjectiveQuestion& question = objective.question;
  Sheet out{{"name", name(question.what)}};
  for (const char* const key : kKeys) out.fact(key, nullptr);
  if (!step) return out;
  const Proof proof = proof_of(objective, *step, gap);
  const double hours = device_hours(*step);
  const bool by_time = question.what == Objective::kMostHeadroom;
  out.facts({{"proven", proof.proven},
             {"proof", proof.words},
             {"gpus", step->ranks},
             {"gpu_hours_per_step", hours},
             {"gpu_hours_per_million_tokens", hours * 1e6 / static_cast<double>(step->tokens)},
             {"money_per_step", question.price > 0 ? Value(hours * question.price) : Value()},
             {"run", run_value(question, *step)},
             {"sequence", objective.longest ? Value(objective.longest->tokens) : Value()},
             {"gpu_free_bytes", step->gpu_free},
             {"within", by_time ? share(share_within(question)) : Value()},
             {"limit_s", objective.headroom ? Value(objective.headroom->limit) : Value()},
             {"tried", objective.cheapest ? tried_value(*objective.cheapest, *step) : Value()}});
  if (question.what == Objective::kFastest) return out;
  out.entry("Objective", "{name}: {}", {objective_value(objective, *step)});
  out.entry("", "{proof}");
  out.show({"run", "tried"});
  return out;
}

}  // namespace zplan
