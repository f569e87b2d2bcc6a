#include "planner/certainty/anchor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/cost/reliance.h"

namespace zplan {
namespace {

// One-sided constants become normal ones of the same variance about the prediction. The overall
// factor takes the variance of the hardware's constants, as far as the run rests on them.
Knowledge normal_prior(Knowledge prior, const std::vector<double>& reliances) {
  const std::size_t rates = stack_rates().size(), overall = constant_of(&StackRates::overall);
  const Knowledge::Row predicted = prior.mean;
  prior = with_normal_constants(std::move(prior));
  prior.mean = predicted;
  for (std::size_t k = rates; k < prior.mean.size(); ++k) {
    prior.covariance[overall][overall] += reliances[k] * reliances[k] * prior.covariance[k][k];
    prior.covariance[k][k] = 0;
  }
  return prior;
}

}  // namespace

Knowledge anchored(const Knowledge& prior, const AnchorRun& run) {
  Knowledge after = normal_prior(prior, run.reliances);
  const std::size_t n = after.mean.size();
  std::vector<double> shared(n);  // covariance of each constant with the run
  double expected = 0, variance = after.run_sd * after.run_sd;
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t l = 0; l < n; ++l) shared[k] += after.covariance[k][l] * run.reliances[l];
    expected += run.reliances[k] * after.mean[k];
  }
  for (std::size_t k = 0; k < n; ++k) variance += run.reliances[k] * shared[k];
  if (variance <= 0) return after;
  for (std::size_t k = 0; k < n; ++k) {
    after.mean[k] += shared[k] / variance * (run.log_error - expected);
    for (std::size_t l = 0; l < n; ++l) after.covariance[k][l] -= shared[k] * shared[l] / variance;
  }
  return after;
}

std::vector<MovedRate> move_rates(Knowledge& knowledge, StackRates& rates) {
  std::vector<MovedRate> moved;
  const auto rows = stack_rates();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    double& rate = rates.*rows[k].member;
    const double before = rate;
    rate = std::clamp(rate * std::exp(knowledge.mean[k]), rows[k].least, rows[k].most);
    knowledge.mean[k] = 0;
    if (rate != before) moved.push_back({std::string(rows[k].name), before, rate});
  }
  return moved;
}

void learn(Evidence& evidence, const Knowledge& learnt, const StackRates& rates, const Kind& kind) {
  evidence.stack.rates = rates;  // from now on of all devices
  for (StackValue& value : evidence.stack.values) value.capability = 0;
  const std::size_t n = stack_rates().size();
  std::vector<std::vector<double>>& covariance = evidence.covariance.emplace();
  for (std::size_t k = 0; k < n; ++k)
    covariance.emplace_back(learnt.covariance[k].begin(),
                            learnt.covariance[k].begin() + static_cast<std::ptrdiff_t>(n));
  MeasuredStack runs = runs_for(evidence, kind.device).value_or(MeasuredStack{});
  if (evidence.runs.empty()) {
    runs.name = evidence.stack.name;
    runs.run_sd = learnt.run_sd;
  }
  ++runs.runs;
  runs.most_devices = std::max(runs.most_devices, kind.devices);
  const auto add = [](std::vector<std::string>& words, const std::string& word) {
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  };
  add(runs.devices, kind.device);
  add(runs.formats, kind.format);
  for (const std::string& feature : kind.features) add(runs.features, feature);
  evidence.runs = {std::move(runs)};
}

}  // namespace zplan
