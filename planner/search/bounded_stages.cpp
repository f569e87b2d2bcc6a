#include "planner/search/bounded_stages.h"

#include <algorithm>

namespace zplan {
namespace {

std::int32_t with_most_layers(const Plan& plan, const ModelConfig& model,
                              const StagePieces& stages) {
  std::int32_t most = 0, found = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::int32_t layers = 0;
    for (const PieceInFlight& at : stages[stage])
      layers += plan.layers_of_piece(model.layers, at.piece);
    if (layers <= most) continue;
    most = layers;
    found = static_cast<std::int32_t>(stage);
  }
  return found;
}

}  // namespace

std::set<std::int32_t> bounded_stages(const Plan& plan, const ModelConfig& model,
                                      const StagePieces& stages,
                                      const std::vector<NodeFill>& fills) {
  const std::int32_t pp = plan.parallel.pp;
  const std::set<std::int32_t> own{0, pp / 2, pp - 1, with_most_layers(plan, model, stages)};
  std::set<std::int32_t> all = own;
  for (const NodeFill& fill : fills) {
    const bool has_own = std::ranges::any_of(
        fill, [&](const StageRanks& there) { return own.contains(there.stage); });
    for (const StageRanks& there : fill)
      if (has_own) all.insert(there.stage);
  }
  return all;
}

}  // namespace zplan
