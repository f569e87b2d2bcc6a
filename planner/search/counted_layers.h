// The layers that bounds count: all or, where the first layers of a model are of another kind, the
// others; none where stages cut the turns of a pattern.
#pragma once

#include <algorithm>

#include "models/model_config.h"
#include "planner/plan/pattern_cuts.h"

namespace zplan {

inline std::int32_t counted_layers(const Plan& plan, const ModelConfig& model, std::int32_t piece) {
  // Stages differ in which layers of a pattern they have.
  if (model.has_pattern() && !comes_in_turns(plan, model)) return 0;
  const std::int32_t own = plan.layers_of_piece(model.layers, piece);
  auto left_out = static_cast<std::int32_t>(model.first_layers());
  if (left_out == 0) return own;
  for (std::int32_t before = 0; before < piece; ++before)
    left_out -= plan.layers_of_piece(model.layers, before);
  return own - std::clamp(left_out, 0, own);
}

}  // namespace zplan
