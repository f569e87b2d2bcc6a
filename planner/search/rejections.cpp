#include "planner/search/rejections.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/quantity.h"
#include "planner/program/ops.h"

namespace zplan {
namespace {

std::string too_large(const Infeasible& why) {
  return fmt::format("{} memory: {} needed, {} there", name(why.tier), format_bytes(why.needed),
                     format_bytes(why.available));
}

// What decided between two plans within the tie tolerance.
std::string tie_reason(const Leaf& lost, const Leaf& winner) {
  const TieKey a = tie_key(lost, 0), b = tie_key(winner, 0);
  if (std::get<0>(a) != std::get<0>(b)) return "but uses more tiers";
  if (std::get<1>(a) != std::get<1>(b)) return "but uses more GPU memory";
  return "as frugal, too, but later in order";
}

std::string too_slow(const Leaf& lost, const Leaf& winner, const Candidate& best) {
  const std::string own = format_seconds(lost.value());
  const std::string other = format_seconds(*best.step);
  const bool exact = lost.candidate.step.has_value();
  if (lost.value().value > best.step->value * (1 + kTieTolerance))
    return fmt::format("fits, but slower: {}{} against {}", exact ? "" : "at least ", own, other);
  return fmt::format("fits, {} {} against {}, {}", exact ? "as fast within 1 %:" : "at best", own,
                     other, tie_reason(lost, winner));
}

}  // namespace

Rejections::Rejections(std::vector<Leaf>& leaves, const Evaluator& evaluator, WorkerPool& pool)
    : leaves_(leaves), evaluator_(evaluator), pool_(pool) {
  for (std::size_t i = 0; i < leaves.size(); ++i)
    families_[family_of(leaves[i].candidate.plan)].push_back(i);
}

// A plan that may fit comes before any that does not.
std::size_t Rejections::representative(const std::vector<std::size_t>& members) const {
  const auto key = [&](std::size_t i) {
    const Leaf& leaf = leaves_[i];
    const double value = leaf.out() ? leaf.candidate.infeasible->overload() : leaf.value().value;
    return std::tuple(leaf.out(), value, i);
  };
  return *std::min_element(members.begin(), members.end(),
                           [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
}

std::int64_t Rejections::settle(std::optional<std::size_t> winner) {
  if (winner) families_.erase(family_of(leaves_[*winner].candidate.plan));
  std::int64_t lowered = 0;
  while (true) {
    std::vector<std::size_t> open;  // known by bounds only
    for (const auto& [family, members] : families_) {
      const std::size_t front = representative(members);
      if (leaves_[front].rung < Rung::kFitted) open.push_back(front);
    }
    if (open.empty()) return lowered;
    pool_.for_each(open.size(), [&](std::size_t i) { fit(leaves_[open[i]], evaluator_); });
    lowered += static_cast<std::int64_t>(open.size());
  }
}

std::vector<Rejected> Rejections::lines(std::optional<std::size_t> winner,
                                        const std::optional<Candidate>& best) const {
  std::vector<Rejected> result;
  for (const auto& [family, members] : families_) {
    const Leaf& leaf = leaves_[representative(members)];
    result.push_back({family, leaf.candidate,
                      leaf.out() ? too_large(*leaf.candidate.infeasible)
                                 : too_slow(leaf, leaves_[*winner], *best)});
  }
  return result;
}

void Rejections::suggest(std::vector<Rejected>& lines, const ModelConfig& model,
                         const Cluster& cluster) {
  pool_.for_each(lines.size(), [&](std::size_t i) {
    Candidate& best = lines[i].best;
    if (best.infeasible)
      best.infeasible->smallest_change = smallest_change(best.plan, model, cluster, evaluator_);
  });
}

}  // namespace zplan
