#include "planner/certainty/interval.h"

#include <cmath>
#include <numbers>

namespace zplan {
namespace {

// Of a standard normal: 80 % lie within it.
constexpr double kQuantile = 1.2816;

}  // namespace

Spread spread_of(const Knowledge& knowledge, std::span<const double> reliances) {
  Spread spread;
  double variance = knowledge.run_sd * knowledge.run_sd;
  for (std::size_t k = 0; k < reliances.size(); ++k) {
    if (reliances[k] == 0) continue;
    const double one_sided = reliances[k] * knowledge.slower[k];
    spread.mean += reliances[k] * knowledge.mean[k] + one_sided * std::sqrt(2 / std::numbers::pi);
    variance += one_sided * one_sided * (1 - 2 / std::numbers::pi);  // of a half-normal
    for (std::size_t l = 0; l < reliances.size(); ++l)
      variance += reliances[k] * knowledge.covariance[k][l] * reliances[l];
  }
  spread.sd = std::sqrt(std::max(0.0, variance));
  return spread;
}

TimeInterval interval_of(Seconds predicted, const Spread& spread) {
  return {predicted * std::exp(spread.mean - kQuantile * spread.sd),
          predicted * std::exp(spread.mean + kQuantile * spread.sd)};
}

}  // namespace zplan
