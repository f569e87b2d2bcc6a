#include "hwprofiles/near_points.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace zplan {
namespace {

constexpr std::size_t kNeighbours = 8;
constexpr double kNearness = 0.05;

}  // namespace

void NearPoints::add(const Place& place, double what) {
  at.push_back({static_cast<float>(place[0]), static_cast<float>(place[1]),
                static_cast<float>(place[2]), static_cast<float>(place[3])});
  value.push_back(static_cast<float>(what));
}

double NearPoints::mean_near(const Place& place, const Place& scale) const {
  std::vector<std::pair<double, std::size_t>> near(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    double distance = 0;
    for (std::size_t d = 0; d < place.size(); ++d) {
      const double off = static_cast<double>(at[i][d]) - place[d];
      distance += scale[d] * off * off;
    }
    near[i] = {distance, i};
  }
  const std::size_t count = std::min(kNeighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double weight = 1.0 / (near[i].first + kNearness);
    sum += weight * static_cast<double>(value[near[i].second]);
    weights += weight;
  }
  return sum / weights;
}

int fold_of(std::initializer_list<std::int64_t> sizes) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
  std::vector<std::int64_t> sorted(sizes);
  std::sort(sorted.begin(), sorted.end());
  std::uint64_t hash = 0;
  for (const std::int64_t size : sorted) {
    hash = (hash ^ static_cast<std::uint64_t>(size)) * kFactor;
    hash ^= hash >> 32;
  }
  return static_cast<int>(hash % kFolds);
}

NearPoints::Place log_place(double a, double b, double c, double d) {
  return {std::log2(a), std::log2(b), std::log2(c), std::log2(d)};
}

}  // namespace zplan
