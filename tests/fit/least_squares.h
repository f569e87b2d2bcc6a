// Levenberg-Marquardt on the logarithms of the free rates; the sum is in problem.h. Derivatives are
// differences; a run depends on the rates of its own stack only. Deterministic on any number of
// threads: every run is simulated on its own and sums are taken in the order of the runs.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "tests/fit/problem.h"

namespace zplan::fit {

struct Options {
  int rounds = 40;      // of Levenberg-Marquardt
  double noise = 0.03;  // [assumed] of a published step time, repeats and reading of figures
  int threads = 2;
};

struct Solution {
  std::vector<double> values;  // of the free rates
  // Of their logarithms, in the order of the free rates.
  std::vector<std::vector<double>> covariance;
  double uncertainty(std::size_t k) const { return std::sqrt(covariance[k][k]); }
  double sum = 0;
};

// From `start`; `tell` is called with the sum after each round.
Solution solve(const Problem& problem, std::vector<double> start, const Options& options,
               const std::function<void(int round, double sum)>& tell);

}  // namespace zplan::fit
