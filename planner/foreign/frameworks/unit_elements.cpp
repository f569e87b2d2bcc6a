#include "planner/foreign/frameworks/unit_elements.h"

#include <algorithm>
#include <numeric>

#include "models/model_formulas.h"

namespace zplan {

std::int64_t unit_elements(const Plan& plan, const ModelConfig& model) {
  constexpr std::int64_t kMatrices = 4;
  const std::int64_t tp = plan.parallel.tp;
  if (plan.gather.by_layer())
    return std::max<std::int64_t>(plan.unit_layers() * layer_parameter_count(model) / tp, 1);
  return std::max<std::int64_t>(layer_matmul_parameter_count(model) / kMatrices / tp, 1);
}

Gather unit_of_bucket(std::int64_t elements, const Plan& plan, const ModelConfig& model) {
  constexpr std::int64_t kMostLayers = 16;
  const std::int64_t layer =
      std::max<std::int64_t>(layer_parameter_count(model) / plan.parallel.tp, 1);
  std::int64_t together = 0;
  for (std::int32_t piece = 0; piece < plan.pieces(); ++piece)
    together = std::gcd(together, plan.layers_of_piece(model.layers, piece));
  for (std::int64_t n = std::min({elements / layer, kMostLayers, together}); n > 0; --n)
    if (together % n == 0) return Gather::of_layers(static_cast<std::int32_t>(n));
  return Gather::kOperator;
}

std::int64_t largest_parameter(const Plan& plan, const ModelConfig& model) {
  const std::int64_t embedding = model.vocab * model.hidden;
  const std::int64_t matrix = model.up_width() * model.hidden;
  return std::max(embedding, matrix) / plan.parallel.tp;
}

}  // namespace zplan
