#include "tests/fit/survey.h"

#include <algorithm>
#include <map>
#include <set>

namespace zplan::fit {
namespace {

std::vector<std::size_t> free_of(const Problem& problem, const std::string& stack) {
  std::vector<std::size_t> indices;
  for (std::size_t k = 0; k < problem.free.size(); ++k)
    if (problem.free[k].rate != nullptr && problem.free[k].owner == stack) indices.push_back(k);
  return indices;
}

// That of the normal distribution whose 80 % are as wide as those of the errors, weighed as in the
// fit: a few runs that are far off do not widen the intervals of all others.
double run_sd(const Problem& problem, const Solution& solution, const std::string& stack) {
  constexpr double kShare = 0.8, kQuantile = 1.2816;
  std::vector<std::pair<double, double>> errors;  // and their weights
  double weights = 0;
  for (const Sample& sample : problem.samples) {
    if (sample.stack != stack) continue;
    errors.emplace_back(std::abs(log_error(sample, problem.free, solution.values)), sample.weight);
    weights += sample.weight;
  }
  std::ranges::sort(errors);
  double passed = 0;
  for (const auto& [error, weight] : errors) {
    passed += weight;
    if (passed >= kShare * weights) return error / kQuantile;
  }
  return errors.back().first / kQuantile;
}

void add(std::set<std::string>& words, const std::vector<std::string>& more) {
  words.insert(more.begin(), more.end());
}

}  // namespace

std::optional<MeasuredStack> survey(const Problem& problem, const Solution& solution,
                                    const std::string& stack) {
  MeasuredStack found;
  found.name = stack;
  std::set<std::string> devices, formats, features;
  for (const Sample& sample : problem.samples) {
    if (sample.stack != stack) continue;
    ++found.runs;
    found.most_devices = std::max(found.most_devices, sample.kind.devices);
    devices.insert(sample.kind.device);
    formats.insert(sample.kind.format);
    add(features, sample.kind.features);
  }
  if (found.runs == 0) return std::nullopt;
  found.devices.assign(devices.begin(), devices.end());
  found.formats.assign(formats.begin(), formats.end());
  found.features.assign(features.begin(), features.end());
  found.run_sd = run_sd(problem, solution, stack);
  const std::vector<std::size_t> free = free_of(problem, stack);
  for (const std::size_t k : free) {
    found.fitted.emplace_back(problem.free[k].key());
    std::vector<double>& row = found.correlation.emplace_back();
    for (const std::size_t l : free)
      row.push_back(solution.covariance[k][l] /
                    (solution.uncertainty(k) * solution.uncertainty(l)));
  }
  return found;
}

MeasuredRuns survey(const Problem& problem, const Solution& solution) {
  MeasuredRuns runs;
  std::set<std::string> stacks;
  std::map<std::pair<std::string, std::string>, BestRun> best;
  for (const Sample& sample : problem.samples) {
    stacks.insert(sample.stack);
    const Kind& kind = sample.kind;
    BestRun& run = best[{kind.device, kind.format}];
    if (sample.mfu > run.mfu) run = {kind.device, kind.format, sample.id, sample.mfu};
  }
  for (const std::string& stack : stacks) runs.stacks.push_back(*survey(problem, solution, stack));
  for (const auto& [key, run] : best) runs.best.push_back(run);
  return runs;
}

StackProfile fitted_stack(const std::string& name, const Problem& problem,
                          const Solution& solution) {
  StackProfile stack = load_stack(name);
  for (const std::size_t k : free_of(problem, name)) {
    const StackRate& rate = *problem.free[k].rate;
    const int capability = problem.free[k].from;
    if (capability == 0) stack.rates.*rate.member = solution.values[k];
    const StackValue value{std::string(rate.name),  capability, solution.values[k],
                           solution.uncertainty(k), "fitted",   "runs"};
    const auto at = std::ranges::find_if(stack.values, [&](const StackValue& other) {
      return other.name == value.name && other.capability == capability;
    });
    if (at == stack.values.end()) {
      stack.values.push_back(value);
    } else {
      *at = value;
    }
  }
  return stack;
}

}  // namespace zplan::fit
