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

std::vector<SpreadPart> spread_parts(const Knowledge& knowledge,
                                     std::span<const double> reliances) {
  const Spread spread = spread_of(knowledge, reliances);
  const auto part_of = [](double variance, double sd) {
    return sd > 0 ? kQuantile * variance / sd : 0.0;
  };
  std::vector<SpreadPart> parts;
  const auto add = [&](SpreadPart part, double mean, double below, double one_sided) {
    part.low = (spread.mean < 0 ? mean : 0) - part_of(below, spread.sd_below);
    part.high = (spread.mean > 0 ? mean : 0) + part_of(below + one_sided, spread.sd);
    if (part.low != 0 || part.high != 0) parts.push_back(part);
  };
  for (std::size_t k = 0; k < reliances.size(); ++k) {
    const double elasticity = reliances[k];
    if (elasticity == 0) continue;
    double below = 0;
    for (std::size_t l = 0; l < reliances.size(); ++l)
      below += elasticity * knowledge.covariance[k][l] * reliances[l];
    const double slower = knowledge.slower[k];
    add({.constant = static_cast<Constant>(k),
         .elasticity = elasticity,
         .sd = std::sqrt(knowledge.covariance[k][k] + slower * slower)},
        elasticity * (knowledge.mean[k] + slower * std::sqrt(2 / std::numbers::pi)), below,
        elasticity * elasticity * slower * slower * (1 - 2 / std::numbers::pi));
  }
  add({.constant = {}, .elasticity = 1, .sd = knowledge.run_sd}, 0,
      knowledge.run_sd * knowledge.run_sd, 0);
  return parts;
}

}  // namespace zplan
