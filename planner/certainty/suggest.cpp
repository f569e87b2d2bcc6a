#include "planner/certainty/suggest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace zplan {
namespace {

// A variance below it is what rounding leaves of none.
constexpr double kNothing = 1e-15;

// Of a log-normal time.
double expected_time(double mean, double variance) { return std::exp(mean + variance / 2); }

std::size_t least(const std::vector<double>& times) {
  return static_cast<std::size_t>(std::ranges::min_element(times) - times.begin());
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Jointly normal variables of which the last are observed, one after the other: each in all worlds.
struct Joint {
  std::vector<std::vector<double>> means;  // by world, variable
  std::vector<std::vector<double>> covariance;

  void observe(std::size_t at, const std::vector<double>& by_world) {
    const std::vector<double> shared = covariance[at];
    const double variance = shared[at];
    if (variance < kNothing) return;
    for (std::size_t world = 0; world < means.size(); ++world) {
      const double surprise = (by_world[world] - means[world][at]) / variance;
      for (std::size_t i = 0; i < shared.size(); ++i) means[world][i] += shared[i] * surprise;
    }
    for (std::size_t i = 0; i < shared.size(); ++i)
      for (std::size_t j = 0; j < shared.size(); ++j)
        covariance[i][j] -= shared[i] * shared[j] / variance;
  }
};

}  // namespace

PlanChoice::PlanChoice(const Knowledge& knowledge, std::vector<Contender> contenders)
    : knowledge_(with_normal_constants(knowledge)),
      worlds_(knowledge),
      contenders_(std::move(contenders)) {
  std::vector<double> times;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    steps_.push_back({contenders_[i].reliances, i, 0});
    times.push_back(expected(i).value);
  }
  chosen_ = least(times);
}

Seconds PlanChoice::expected(std::size_t contender) const {
  const Reading& step = steps_[contender];
  const double mean = product(step.reliances, knowledge_.mean);
  return contenders_[contender].predicted * expected_time(mean, covariance(step, step));
}

int PlanChoice::fastest_in(std::size_t contender) const {
  int count = 0;
  for (int world = 0; world < kWorlds; ++world) {
    const double own = worlds_.log_time(world, contenders_[contender]);
    count += std::ranges::all_of(
                 contenders_,
                 [&](const Contender& other) { return own <= worlds_.log_time(world, other); })
                 ? 1
                 : 0;
  }
  return count;
}

MeasurementValue PlanChoice::perfect() const { return value_of(steps_); }

MeasurementValue PlanChoice::value_of(const Measurement& measurement) const {
  Measurement variables = steps_;
  variables.insert(variables.end(), measurement.begin(), measurement.end());
  const std::size_t n = variables.size(), plans = contenders_.size();
  Joint joint;
  joint.covariance.assign(n, std::vector<double>(n));
  std::vector<double> means(n);
  for (std::size_t i = 0; i < n; ++i) {
    means[i] = product(variables[i].reliances, knowledge_.mean);
    for (std::size_t j = 0; j < n; ++j)
      joint.covariance[i][j] = covariance(variables[i], variables[j]);
    joint.covariance[i][i] += variables[i].noise * variables[i].noise;
  }
  joint.means.assign(kWorlds, means);
  for (std::size_t at = plans; at < n; ++at) {
    std::vector<double> by_world;
    for (int world = 0; world < kWorlds; ++world)
      by_world.push_back(drawn(world, variables[at], at - plans));
    joint.observe(at, by_world);
  }
  MeasurementValue value;
  for (const std::vector<double>& given : joint.means) {
    std::vector<double> times;
    for (std::size_t i = 0; i < plans; ++i)
      times.push_back(contenders_[i].predicted.value *
                      expected_time(given[i], std::max(0.0, joint.covariance[i][i])));
    const std::size_t best = least(times);
    if (times[best] >= times[chosen_]) continue;
    ++value.changes;
    value.saving += (times[chosen_] - times[best]) / expected(chosen_).value / kWorlds;
  }
  return value;
}

double PlanChoice::uncertainty(const Reading& reading) const {
  return std::sqrt(std::max(0.0, covariance(reading, reading)));
}

double PlanChoice::covariance(const Reading& a, const Reading& b) const {
  const bool same_plan = a.contender && a.contender == b.contender;
  double sum = same_plan ? knowledge_.run_sd * knowledge_.run_sd : 0;
  for (std::size_t k = 0; k < a.reliances.size(); ++k)
    if (a.reliances[k] != 0) sum += a.reliances[k] * product(knowledge_.covariance[k], b.reliances);
  return sum;
}

double PlanChoice::drawn(int world, const Reading& reading, std::uint64_t key) const {
  const double noise = reading.noise * worlds_.noise(world, key);
  if (!reading.contender) return worlds_.shift(world, reading.reliances) + noise;
  const Contender& plan = contenders_[*reading.contender];
  return worlds_.log_time(world, plan) - std::log(plan.predicted.value) + noise;
}

}  // namespace zplan
