// A value known at some places in three dimensions, and what it is near them: the weighted mean of
// the 8 nearest places, weights 1 / (distance^2 + 0.05) [derived]. Places are log2 of sizes.
#pragma once

#include <array>
#include <vector>

namespace zplan {

struct NearPoints {
  std::vector<std::array<float, 3>> at;
  std::vector<float> value;

  void add(const std::array<double, 3>& place, double what);
  // `scale`: of the squared distance in each dimension. There is at least one place.
  double mean_near(const std::array<double, 3>& place, const std::array<double, 3>& scale) const;
};

// log2 of three sizes.
std::array<double, 3> log_place(double a, double b, double c);

}  // namespace zplan
