#include "tests/fit/blind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "planner/certainty/anchor.h"
#include "planner/certainty/interval.h"
#include "planner/validate/anchoring.h"
#include "sim/simulate.h"
#include "tests/fit/survey.h"

namespace zplan::fit {
namespace {

// A run of the group as the anchors and intervals see it.
struct Foretold {
  Knowledge knowledge;
  AnchorRun run;
};

Foretold foretell_one(const Problem& fitted, const Solution& solution, const Sample& sample,
                      const std::optional<MeasuredStack>& runs) {
  const Cluster cluster = cluster_with(sample, fitted.free, solution.values);
  const sim::SimResult result =
      sim::simulate(sample.job, cluster, {.find_reliances = true, .fingerprint = {}});
  Evidence evidence{fitted_stack(sample.stack, fitted, solution)};
  if (runs) evidence.runs = {*runs};
  return {knowledge_of(evidence, cluster.node, sample.kind),
          {std::log(sample.measured_s / result.period.value), result.reliances}};
}

// Evenly spread over the group.
std::vector<std::size_t> anchors_of(std::size_t runs) {
  constexpr std::size_t kMost = 12;
  std::vector<std::size_t> anchors;
  const std::size_t count = std::min(runs, kMost);
  for (std::size_t i = 0; i < count; ++i) anchors.push_back((2 * i + 1) * runs / (2 * count));
  return anchors;
}

double mean_absolute_error(const Problem& group, std::size_t anchor, const Solution& solution,
                           const Anchoring& anchoring) {
  double sum = 0;
  for (std::size_t i = 0; i < group.samples.size(); ++i) {
    const Sample& sample = group.samples[i];
    if (i == anchor || sample.stack != group.samples[anchor].stack) continue;
    Cluster cluster = cluster_with(sample, group.free, solution.values);
    cluster.stack = anchoring.rates;
    sum += std::abs(sim::simulate(sample.job, cluster).period.value / sample.measured_s - 1);
  }
  return sum / static_cast<double>(group.samples.size() - 1);
}

}  // namespace

std::vector<BlindRun> foretell(const Problem& fitted, const Solution& solution,
                               const Problem& group) {
  std::vector<Foretold> all;
  std::vector<BlindRun> runs;
  std::map<std::string, std::optional<MeasuredStack>> stacks;
  for (const Sample& sample : group.samples) {
    if (!stacks.contains(sample.stack))
      stacks[sample.stack] = survey(fitted, solution, sample.stack);
    const std::optional<MeasuredStack>& known = stacks[sample.stack];
    const Foretold& one = all.emplace_back(foretell_one(fitted, solution, sample, known));
    const Spread spread = spread_of(one.knowledge, one.run.reliances);
    const TimeInterval of_one = interval_of(Seconds{1}, spread);
    const double measured = std::exp(one.run.log_error);
    runs.push_back({.id = sample.id,
                    .group = sample.group,
                    .stack = sample.stack,
                    .error = 1 / measured - 1,
                    .low = of_one.low.value,
                    .high = of_one.high.value,
                    .known_stack = known.has_value(),
                    .within = of_one.low.value <= measured && measured <= of_one.high.value});
  }
  if (all.size() < 2) return runs;
  for (const std::size_t i : anchors_of(all.size())) {
    const Sample& sample = group.samples[i];
    const Cluster cluster = cluster_with(sample, fitted.free, solution.values);
    const Anchoring anchoring =
        anchor_on(sample.job, cluster, Seconds{sample.measured_s}, all[i].knowledge);
    runs[i].anchored_error = mean_absolute_error(group, i, solution, anchoring);
  }
  return runs;
}

std::string to_json(const std::vector<BlindRun>& runs) {
  std::string rows;
  for (const BlindRun& run : runs)
    rows += fmt::format(
        "{}{{\"id\": \"{}\", \"group\": \"{}\", \"stack\": \"{}\", \"error\": {:.4f}, \"low\": "
        "{:.4f}, \"high\": {:.4f}, "
        "\"known_stack\": {}, \"within\": {}, \"anchored_error\": {}}}",
        rows.empty() ? "" : ",\n", run.id, run.group, run.stack, run.error, run.low, run.high,
        run.known_stack, run.within,
        run.anchored_error ? fmt::format("{:.4f}", *run.anchored_error) : "null");
  return "[" + rows + "]\n";
}

}  // namespace zplan::fit
