#include "tests/fit/blind.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "planner/certainty/anchor.h"
#include "planner/certainty/interval.h"
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
                      const MeasuredStack* runs) {
  const Cluster cluster = cluster_with(sample, fitted.free, solution.values);
  const sim::SimResult result =
      sim::simulate(sample.job, cluster, {.find_reliances = true, .fingerprint = {}});
  const StackProfile stack = fitted_stack(sample.stack, fitted, solution);
  return {knowledge_of(stack, runs, cluster.node, sample.kind),
          {std::log(sample.measured_s / result.period.value), result.reliances}};
}

// The other runs' errors once `anchor` is known, and its own knowledge otherwise.
void add_anchored(const std::vector<Foretold>& all, std::size_t anchor,
                  std::vector<BlindRun>& runs) {
  const Knowledge after = anchored(all[anchor].knowledge, all[anchor].run);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == anchor) continue;
    double expected = 0;
    for (std::size_t k = 0; k < after.mean.size(); ++k)
      expected += all[i].run.reliances[k] * after.mean[k];
    const double error = std::exp(expected - all[i].run.log_error) - 1;
    runs[i].anchored_error += std::abs(error) / static_cast<double>(all.size() - 1);
  }
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
    const Foretold& one = all.emplace_back(
        foretell_one(fitted, solution, sample, known ? &*known : nullptr));
    const Spread spread = spread_of(one.knowledge, one.run.reliances);
    const TimeInterval of_one = interval_of(Seconds{1}, spread);
    const double measured = std::exp(one.run.log_error);
    runs.push_back({.id = sample.id,
                    .error = 1 / measured - 1,
                    .low = of_one.low.value,
                    .high = of_one.high.value,
                    .known_stack = known.has_value(),
                    .within = of_one.low.value <= measured && measured <= of_one.high.value});
  }
  for (std::size_t i = 0; i < all.size(); ++i) add_anchored(all, i, runs);
  return runs;
}

std::string to_json(const std::vector<BlindRun>& runs) {
  std::string rows;
  for (const BlindRun& run : runs)
    rows += fmt::format(
        "{}{{\"id\": \"{}\", \"error\": {:.4f}, \"low\": {:.4f}, \"high\": {:.4f}, "
        "\"known_stack\": {}, \"within\": {}, \"anchored_error\": {:.4f}}}",
        rows.empty() ? "" : ",\n", run.id, run.error, run.low, run.high, run.known_stack,
        run.within, run.anchored_error);
  return "[" + rows + "]\n";
}

}  // namespace zplan::fit
