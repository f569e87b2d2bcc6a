#include "planner/certainty/worlds.h"

#include <cmath>

#include "planner/core/random.h"

namespace zplan {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr std::uint64_t kSeed = 1;

// L with L L^T = a, for a positive semi-definite a: where nothing is left of a row, it is 0.
Matrix root_of(const Matrix& a) {
  constexpr double kNothing = 1e-12;
  const std::size_t n = a.size();
  Matrix root(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double rest = a[i][j];
      for (std::size_t k = 0; k < j; ++k) rest -= root[i][k] * root[j][k];
      if (i == j) {
        root[i][i] = rest > kNothing ? std::sqrt(rest) : 0;
      } else if (root[j][j] > 0) {
        root[i][j] = rest / root[j][j];
      }
    }
  }
  return root;
}

double normal(std::uint64_t stream, std::uint64_t key, int world) {
  return normal_from(philox4x32({low32(key), high32(key), static_cast<std::uint32_t>(world),
                                 static_cast<std::uint32_t>(stream)},
                                seed_key(kSeed)));
}

constexpr std::uint64_t kOfConstants = 0, kOfPlans = 1, kOfReadings = 2;

}  // namespace

Worlds::Worlds(const Knowledge& knowledge)
    : draws_(kWorlds, knowledge.mean), run_sd_(knowledge.run_sd) {
  const Matrix root = root_of(knowledge.covariance);
  const std::size_t n = knowledge.mean.size();
  for (int world = 0; world < kWorlds; ++world) {
    std::vector<double> z(n);
    for (std::size_t k = 0; k < n; ++k) z[k] = normal(kOfConstants, k, world);
    std::vector<double>& draw = draws_[static_cast<std::size_t>(world)];
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t l = 0; l <= k; ++l) draw[k] += root[k][l] * z[l];
      draw[k] += std::abs(z[k]) * knowledge.slower[k];
    }
  }
}

double Worlds::log_time(int world, const Contender& plan) const {
  return std::log(plan.predicted.value) + run_sd_ * normal(kOfPlans, plan.key, world) +
         shift(world, plan.reliances);
}

double Worlds::shift(int world, std::span<const double> reliances) const {
  const std::vector<double>& draw = draws_[static_cast<std::size_t>(world)];
  double sum = 0;
  for (std::size_t k = 0; k < reliances.size(); ++k) sum += reliances[k] * draw[k];
  return sum;
}

double Worlds::noise(int world, std::uint64_t key) const { return normal(kOfReadings, key, world); }

int Worlds::wins(const Contender& a, const Contender& b) const {
  int wins = 0;
  for (int world = 0; world < kWorlds; ++world)
    wins += log_time(world, a) < log_time(world, b) ? 1 : 0;
  return wins;
}

}  // namespace zplan
