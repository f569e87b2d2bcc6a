#include "planner/search/ranking.h"

#include <algorithm>

namespace zplan {

void Ranking::add(const std::vector<const Leaf*>& leaves) {
  leaves_.insert(leaves_.end(), leaves.begin(), leaves.end());
  if (!leaves_.empty()) choose();
}

bool Ranking::has(const Plan& plan) const {
  return std::ranges::any_of(leaves_, [&](const Leaf* leaf) {
    Plan own = leaf->candidate.plan;
    own.slack = plan.slack;
    return own == plan;
  });
}

Seconds Ranking::limit() const {
  const bool is_on_gpu = !keeps_more_on_gpu({}, simplicity_of(fastest().candidate.plan));
  return fastest().value() * (1 + (is_on_gpu || !evaluator_.wins ? kTieTolerance : kTierTolerance));
}

Seconds Ranking::limit_of(const Plan& plan) const {
  const bool is_nearer =
      keeps_more_on_gpu(simplicity_of(plan), simplicity_of(fastest().candidate.plan));
  return is_nearer ? limit() : fastest().value() * (1 + kTieTolerance);
}

std::optional<int> Ranking::wins_over(const Leaf& leaf) const {
  if (!evaluator_.wins || &leaf == fastest_) return std::nullopt;
  const auto [at, is_new] = wins_.emplace(std::pair(fastest_->place, leaf.place), 0);
  if (is_new) at->second = evaluator_.wins(fastest_->candidate.plan, leaf.candidate.plan);
  return at->second;
}

void Ranking::choose() {
  const auto faster = [](const Leaf* a, const Leaf* b) {
    if (a->value() != b->value()) return a->value() < b->value();
    return tie_key(*a) < tie_key(*b);
  };
  fastest_ = *std::min_element(leaves_.begin(), leaves_.end(), faster);
  std::vector<std::pair<TieKey, const Leaf*>> near;
  for (const Leaf* leaf : leaves_)
    if (is_near(*leaf)) near.emplace_back(tie_key(*leaf), leaf);
  std::sort(near.begin(), near.end());
  recommended_ = fastest_;
  for (const auto& [key, leaf] : near) {
    if (told_apart(*leaf)) continue;
    recommended_ = leaf;
    return;
  }
}

}  // namespace zplan
