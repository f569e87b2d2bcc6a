#include "planner/program/job/job.h"

namespace zplan {

std::int32_t RankClass::layer_count() const {
  std::int32_t sum = 0;
  for (const LayerRange& range : layers) sum += range.count;
  return sum;
}

std::optional<std::int64_t> RankClass::index_of(std::int64_t layer) const {
  std::int64_t before = 0;
  for (const LayerRange& range : layers) {
    const std::int64_t within = layer - range.first;
    if (within >= 0 && within < range.count) return before + within;
    before += range.count;
  }
  return std::nullopt;
}

std::int64_t RankClass::layer_at(std::int64_t index) const {
  auto range = layers.begin();
  for (; index >= range->count; ++range) index -= range->count;
  return range->first + index;
}

std::vector<std::int64_t> RankClass::layers_with(const Unit& unit) const {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < layer_count(); ++i) {
    const std::int64_t layer = layer_at(i);
    const bool has = unit.layers.first <= layer && layer < unit.layers.end();
    if (has || unit.layers.count == 0) found.push_back(layer);
  }
  return found;
}

}  // namespace zplan
