#include "planner/core/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace zplan {

std::vector<std::int64_t> rounded_shares(std::span<const double> parts, std::int64_t units) {
  std::vector<std::int64_t> result(parts.size());
  const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
  if (!(whole > 0)) return result;
  std::vector<double> rest(parts.size());
  std::int64_t left = units;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = parts[i] / whole * static_cast<double>(units);
    result[i] = static_cast<std::int64_t>(std::floor(exact));
    rest[i] = exact - static_cast<double>(result[i]);
    left -= result[i];
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rest[a] > rest[b]; });
  for (std::size_t i = 0; left > 0; ++i, --left) ++result[order[i % order.size()]];
  return result;
}

}  // namespace zplan
