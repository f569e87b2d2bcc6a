#include "tests/fit/least_squares.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace zplan::fit {
namespace {

using Row = std::vector<double>;

constexpr double kStep = 0.02;  // of a logarithm, for differences

void in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    });
  }
}

// What multiplies the square of an error so that its derivative is that of w rho.
double influence(double weight, double error) { return weight / std::sqrt(1 + error * error); }

class Solver {
 public:
  Solver(const Problem& problem, const Options& options) : p_(problem), options_(options) {}

  std::vector<double> errors(const std::vector<double>& values) const {
    std::vector<double> result(p_.samples.size());
    in_parallel(result.size(), options_.threads, [&](std::size_t i) {
      result[i] = log_error(p_.samples[i], p_.free, values) / options_.noise;
    });
    return result;
  }

  double sum(const std::vector<double>& errors, const std::vector<double>& values) const {
    double total = 0;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      const double w = p_.samples[i].weight, e = errors[i];
      total += w * 2 * (std::sqrt(1 + e * e) - 1);
    }
    for (std::size_t k = 0; k < values.size(); ++k) total += prior(values, k) * prior(values, k);
    return total;
  }

  double prior(const std::vector<double>& values, std::size_t k) const {
    return std::log(values[k] / expected_of(p_.free, values, k)) / p_.free[k].spread;
  }

  // Of each error to the logarithms of the rates.
  std::vector<Row> slopes(const std::vector<double>& values,
                          const std::vector<double>& errors) const {
    std::vector<Row> result(p_.samples.size(), Row(values.size()));
    in_parallel(result.size(), options_.threads, [&](std::size_t i) {
      const Sample& sample = p_.samples[i];
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (!p_.free[k].concerns(sample)) continue;
        std::vector<double> moved = values;
        // Shares stay below one.
        const double step = values[k] * std::exp(kStep) > p_.free[k].most ? -kStep : kStep;
        moved[k] *= std::exp(step);
        const double error = log_error(sample, p_.free, moved) / options_.noise;
        result[i][k] = (error - errors[i]) / step;
      }
    });
    return result;
  }

 private:
  const Problem& p_;
  const Options& options_;
};

// Solves a x = b with a symmetric and positive definite, by Cholesky's method; `a` is used up.
std::vector<double> solve_linear(std::vector<Row>& a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j][j] -= a[j][k] * a[j][k];
    a[j][j] = std::sqrt(a[j][j]);
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i][j] -= a[i][k] * a[j][k];
      a[i][j] /= a[j][j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

Solution solve(const Problem& problem, std::vector<double> start, const Options& options,
               const std::function<void(int round, double sum)>& tell) {
  const Solver solver(problem, options);
  const std::size_t n = start.size();
  Solution best{std::move(start), std::vector<Row>(n, Row(n)), 0};
  std::vector<double> errors = solver.errors(best.values);
  best.sum = solver.sum(errors, best.values);
  tell(0, best.sum);
  double damping = 1e-2;
  std::vector<Row> normal;
  for (int round = 1; round <= options.rounds; ++round) {
    const std::vector<Row> slopes = solver.slopes(best.values, errors);
    normal.assign(n, Row(n));
    std::vector<double> downhill(n);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      const double w = influence(problem.samples[i].weight, errors[i]);
      for (std::size_t k = 0; k < n; ++k) {
        if (slopes[i][k] == 0) continue;
        downhill[k] -= w * slopes[i][k] * errors[i];
        for (std::size_t l = 0; l < n; ++l) normal[k][l] += w * slopes[i][k] * slopes[i][l];
      }
    }
    for (std::size_t k = 0; k < n; ++k) {
      const double spread = problem.free[k].spread, weight = 1 / (spread * spread);
      const double slope = solver.prior(best.values, k) / spread;
      normal[k][k] += weight;
      downhill[k] -= slope;
      if (const auto kin = problem.free[k].kin) {
        normal[*kin][*kin] += weight;
        normal[k][*kin] -= weight;
        normal[*kin][k] -= weight;
        downhill[*kin] += slope;
      }
    }
    bool better = false;
    const double before = best.sum;
    for (int tries = 0; tries < 8 && !better; ++tries) {
      std::vector<Row> damped = normal;
      for (std::size_t k = 0; k < n; ++k) damped[k][k] *= 1 + damping;
      const std::vector<double> step = solve_linear(damped, downhill);
      std::vector<double> values = best.values;
      for (std::size_t k = 0; k < n; ++k) {
        values[k] *= std::exp(std::clamp(step[k], -1.0, 1.0));
        values[k] = std::min(values[k], problem.free[k].most);
      }
      std::vector<double> moved = solver.errors(values);
      const double sum = solver.sum(moved, values);
      better = sum < best.sum;
      if (better) {
        best.values = std::move(values);
        best.sum = sum;
        errors = std::move(moved);
      }
      damping *= better ? 0.3 : 10;
    }
    tell(round, best.sum);
    if (!better || before - best.sum < 1e-5 * before) break;
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::vector<Row> copy = normal;
    std::vector<double> unit(n);
    unit[k] = 1;
    best.covariance[k] = solve_linear(copy, std::move(unit));
  }
  return best;
}

}  // namespace zplan::fit
