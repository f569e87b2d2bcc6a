#include "planner/certainty/interval.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zplan {
namespace {

// Of a standard normal: 80 % lie within it.
constexpr double kQuantile = 1.2816;

}  // namespace

Spread spread_of(const Knowledge& knowledge, std::span<const double> reliances) {
  Spread spread;
  double below = knowledge.run_sd * knowledge.run_sd, slower = 0;
  for (std::size_t k = 0; k < reliances.size(); ++k) {
    if (reliances[k] == 0) continue;
    const double one_sided = reliances[k] * knowledge.slower[k];
    spread.mean += reliances[k] * knowledge.mean[k] + one_sided * std::sqrt(2 / std::numbers::pi);
    slower += one_sided * one_sided * (1 - 2 / std::numbers::pi);  // of a half-normal
    for (std::size_t l = 0; l < reliances.size(); ++l)
      below += reliances[k] * knowledge.covariance[k][l] * reliances[l];
  }
  spread.sd_below = std::sqrt(std::max(0.0, below));
  spread.sd = std::sqrt(std::max(0.0, below + slower));
  return spread;
}

TimeInterval interval_of(Seconds predicted, const Spread& spread) {
  const double low = std::min(0.0, spread.mean) - kQuantile * spread.sd_below;
  return {predicted * std::exp(low),
          predicted * std::exp(std::max(0.0, spread.mean) + kQuantile * spread.sd)};
}

}  // namespace zplan
