// A value known at some places in up to four dimensions, and what it is near them: the weighted
// mean of the 8 nearest places, weights 1 / (distance^2 + 0.05) [derived]. Places are log2 of
// sizes; a dimension that is not given is the same everywhere.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace zplan {

struct NearPoints {
  using Place = std::array<double, 4>;
  std::vector<std::array<float, 4>> at;
  std::vector<float> value;

  void add(const Place& place, double what);
  // `scale`: of the squared distance in each dimension. There is at least one place.
  double mean_near(const Place& place, const Place& scale) const;
};

// Shapes are dealt into so many folds by their sizes, in whatever order they are given. Tests leave
// the rows of one fold out of a table, and ask how well it knows these shapes without them.
inline constexpr int kFolds = 5, kNoFold = -1;
int fold_of(std::initializer_list<std::int64_t> sizes);

// log2 of the sizes.
NearPoints::Place log_place(double a, double b, double c, double d = 1);

}  // namespace zplan
