#include "planner/lower/blocks/expert_rows.h"

#include <algorithm>
#include <cmath>

namespace zplan {
namespace {

bool is_gathered(const Parallel& shape) {
  return shape.routes_own_tokens() && !shape.folds_experts();
}

std::int64_t ceiling(double rows) { return static_cast<std::int64_t>(std::ceil(rows)); }

}  // namespace

ExpertRows::ExpertRows(const Sizes& sizes, const ExpertShape& shape)
    : tokens(sizes.routed_tokens()),
      ranks(sizes.plan.parallel.ep),
      gathered(is_gathered(sizes.plan.parallel) ? sizes.tp() : 1),
      experts(shape.count / ranks) {
  const std::int64_t k = shape.per_token;
  const double factor = sizes.plan.capacity_factor;
  const double imbalance = sizes.plan.expert_imbalance;
  const auto even = static_cast<double>(sizes.s() * k) / static_cast<double>(shape.count);
  capacity = std::min(ceiling(factor * even), factor > 0 ? sizes.s() : 0);
  room = tokens * std::min(k, experts);
  const auto mean = static_cast<double>(tokens * k) / static_cast<double>(ranks);
  if (capacity > 0) {
    room = std::min(room, experts * sizes.b() * capacity);
  } else if (imbalance > 0) {
    room = std::min(room, ceiling(imbalance * mean));
  }
  const double most = std::max(1.0, imbalance) * static_cast<double>(gathered * tokens * k);
  expected = std::min(parts() * room, ceiling(most));
}

}  // namespace zplan
