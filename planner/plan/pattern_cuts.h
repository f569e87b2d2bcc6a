// Layers of several kinds come in whole turns of their pattern where stages and what is recomputed
// do; otherwise each run of equal layers is by itself.
#pragma once

#include <algorithm>

#include "planner/plan/plan.h"

namespace zplan {

// Returns whether a piece of the model, or layers recomputed alike, end in the midst of a turn.
inline bool cuts_turns(const Plan& plan, std::int64_t layers, std::int64_t turn) {
  if (turn == 1) return false;
  for (std::int32_t piece = 0; piece < plan.pieces(); ++piece)
    if (plan.layers_of_piece(layers, piece) % turn != 0) return true;
  return std::ranges::any_of(plan.recompute,
                             [&](const RecomputeRun& run) { return run.layers % turn != 0; });
}

// Returns whether layers of a pattern come in whole turns. Modules of multi-token prediction are of
// a kind of their own.
template <typename Model>
bool comes_in_turns(const Plan& plan, const Model& model) {
  return model.mtp_layers == 0 && !cuts_turns(plan, model.layers, model.kind_layers());
}

}  // namespace zplan
