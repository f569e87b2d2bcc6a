#include "planner/cli/explain/interval_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/certainty/interval.h"
#include "planner/cli/frame/words.h"
#include "planner/core/text.h"
#include "planner/search/explanation_parts.h"

namespace zplan {
namespace {

constexpr std::string_view kKnown = "planner/certainty/knowledge.h";

std::string_view meaning(Constant constant) {
  const auto rates = stack_rates();
  if (constant < rates.size()) return rates[constant].meaning;
  return name(static_cast<HardwareTime>(constant - rates.size()));
}

std::string part_name(const SpreadPart& part) {
  return fmt::format("{} +- {}",
                     part.constant ? constant_name(*part.constant) : "each run by itself",
                     percent(part.sd));
}

std::string part_source(const SpreadPart& part, const Evidence& evidence, const HwProfile& node,
                        const std::vector<std::string>& unknown) {
  if (!part.constant)
    return std::string("what the constants do not explain; ") +
           (evidence.runs.empty() ? "5 % [assumed]: no run of the stack was measured"
                                  : "scatter of the stack's runs, no less than 5 % [assumed]");
  std::string source =
      fmt::format("{} of the step follows it ({}); it is {}", percent(part.elasticity),
                  meaning(*part.constant), source_of(*part.constant, evidence, node));
  const bool overall = *part.constant == constant_of(&StackRates::overall);
  if (overall && !unknown.empty())
    source += fmt::format("; wider [assumed] for: {}", joined(unknown, "; "));
  return source;
}

// What the interval reaches further up, to the best that was measured.
struct ToTheBest {
  double log_factor = 0;
  std::string run;
};
std::optional<ToTheBest> to_the_best(const TimePrediction& time,
                                     const std::vector<SpreadPart>& parts) {
  if (!time.certainty.exceeded) return std::nullopt;
  double further = std::log(time.certainty.interval.high.value / time.sim.period.value);
  for (const SpreadPart& part : parts) further -= part.high;
  constexpr double kRounding = 1e-9;
  if (further < kRounding) return std::nullopt;
  return ToTheBest{further, time.certainty.exceeded->run};
}

// The end of an interval as a product: step x factors, those that move it most first.
Explanation end_of(const char* what, Seconds value, Seconds step,
                   const std::vector<SpreadPart>& parts, double SpreadPart::*end,
                   const std::function<std::string(const SpreadPart&)>& source,
                   const std::optional<ToTheBest>& best = {}) {
  std::vector<SpreadPart> sorted = parts;
  std::stable_sort(sorted.begin(), sorted.end(), [&](const SpreadPart& a, const SpreadPart& b) {
    return std::abs(a.*end) > std::abs(b.*end);
  });
  double all = best ? best->log_factor : 0;
  for (const SpreadPart& part : sorted) all += part.*end;
  std::vector<Term> factors{seconds_term("step", step, "time.step_s")};
  for (const SpreadPart& part : sorted)
    if (part.*end != 0)
      factors.push_back(
          term(fmt::format("{}: {} of the way", part_name(part), percent(part.*end / all)),
               std::exp(part.*end), TermUnit::kFactor, source(part)));
  if (best)
    factors.push_back(
        term(fmt::format("up to the best that was measured on this device: {} of the way",
                         percent(best->log_factor / all)),
             std::exp(best->log_factor), TermUnit::kFactor, best->run));
  return quotient(what, value.value, TermUnit::kSeconds,
                  fmt::format("step x a factor per constant: exp(mean +- 1.28 standard deviations) "
                              "of log(true / predicted), {:.0f} % inside",
                              kIntervalPct),
                  std::move(factors), {});
}

void add_reliances(const std::vector<double>& reliances, Explanations& out) {
  constexpr double kWorthTelling = 0.005;  // as the answer has them
  int row = 0;
  for (std::size_t k = 0; k < reliances.size(); ++k) {
    if (std::abs(reliances[k]) < kWorthTelling) continue;
    const auto constant = static_cast<Constant>(k);
    out.push_back(single(fmt::format("time.rests_on[{}].elasticity", row++), reliances[k],
                         TermUnit::kFactor,
                         fmt::format("d log(step) / d log({}): the share of the critical path that "
                                     "is in proportion to it ({})",
                                     constant_name(constant), meaning(constant)),
                         kSimulated));
    out.back().also = {fmt::format("time.rests_on.{}", constant_name(constant))};
  }
}

}  // namespace

void explain_interval(const TimePrediction& time, const Evidence& evidence, const HwProfile& node,
                      const Kind& kind, Explanations& out) {
  const Knowledge knowledge = knowledge_of(evidence, node, kind);
  const std::vector<SpreadPart> parts = spread_parts(knowledge, time.sim.reliances);
  const auto source = [&](const SpreadPart& part) {
    return part_source(part, evidence, node, knowledge.unknown);
  };
  const TimeInterval& interval = time.certainty.interval;
  const Seconds step = time.sim.period;
  out.push_back(end_of("time.interval.low_s", interval.low, step, parts, &SpreadPart::low, source));
  out.push_back(end_of("time.interval.high_s", interval.high, step, parts, &SpreadPart::high,
                       source, to_the_best(time, parts)));
  out.push_back(single("time.interval.share", kIntervalPct / 100, TermUnit::kShare,
                       "probability that the true step lies inside, as far as the spreads go",
                       kKnown));
  add_reliances(time.sim.reliances, out);
  if (time.certainty.exceeded)
    out.push_back(single("time.exceeds.mfu", time.certainty.exceeded->mfu, TermUnit::kShare,
                         "the best that was measured on this device in this format",
                         time.certainty.exceeded->run));
}

}  // namespace zplan
