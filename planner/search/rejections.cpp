#include "planner/search/rejections.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "planner/core/quantity.h"
#include "planner/program/job/ops.h"

namespace zplan {
namespace {

// Plans that are lowered to learn which one is closest to fitting.
constexpr int kRounds = 16;

std::string too_large(const Infeasible& why) {
  return fmt::format("{} memory: {}{} needed, {} there", name(why.tier),
                     why.is_bound() ? "at least " : "", format_bytes(why.needed),
                     format_bytes(why.available));
}

// What decided between a plan within the tie tolerance and the recommended one.
std::string tie_reason(const Leaf& lost, const Ranking& ranking) {
  if (ranking.told_apart(lost))
    return fmt::format("slower than the fastest in {} of 100 worlds", *ranking.wins_over(lost));
  const Leaf& winner = ranking.recommended();
  const std::string_view more =
      first_difference(simplicity_of(lost.candidate.plan), simplicity_of(winner.candidate.plan));
  if (!more.empty()) return fmt::format("but less simple: {}", more);
  return lost.gpu == winner.gpu ? "as simple, too, but later in order" : "but uses more GPU memory";
}

std::string too_slow(const Leaf& lost, const Ranking& ranking) {
  const std::string own = format_seconds(lost.value());
  const std::string other = format_seconds(ranking.recommended().value());
  const bool exact = lost.candidate.step.has_value();
  const bool slower = lost.value() > ranking.limit();
  if (lost.rung < Rung::kFitted && !slower)
    return fmt::format("not tried: at best {} against {}", own, other);
  if (lost.rung < Rung::kFitted)
    return fmt::format("slower if it fits: at least {} against {}", own, other);
  if (slower)
    return fmt::format("fits, but slower: {}{} against {}", exact ? "" : "at least ", own, other);
  if (!exact) return fmt::format("fits, not simulated: at best {} against {}", own, other);
  return fmt::format("fits, {} against {}, {}", own, other, tie_reason(lost, ranking));
}

// A plan that may fit comes before any that is set aside or does not fit; one of which nothing is
// known comes last.
auto preference(const Leaf& leaf) {
  const bool known = leaf.rung > Rung::kEnumerated;
  const int kind = leaf.set_aside ? 1 : leaf.out() ? 2 : known ? 0 : 3;
  const double value = leaf.out() ? leaf.candidate.infeasible->overload() : leaf.value().value;
  return std::pair(kind, value);
}

std::string reason(const Leaf& leaf, const Ranking& ranking) {
  if (leaf.out()) return too_large(*leaf.candidate.infeasible);
  if (leaf.set_aside) return "set aside: the same plan fits with its states closer to the GPU";
  return too_slow(leaf, ranking);
}

}  // namespace

std::vector<Rejected> rejections(const std::vector<Leaf>& leaves, const Ranking& ranking) {
  std::map<Family, std::size_t> families;  // the best leaf of each
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto [at, is_new] = families.emplace(family_of(leaves[i].candidate.plan), i);
    if (!is_new && preference(leaves[i]) < preference(leaves[at->second])) at->second = i;
  }
  if (!ranking.empty()) families.erase(family_of(ranking.recommended().candidate.plan));
  std::vector<Rejected> result;
  for (const auto& [family, index] : families) {
    const Leaf& leaf = leaves[index];
    result.push_back({family, leaf.candidate, reason(leaf, ranking), leaf.set_aside});
  }
  return result;
}

std::size_t closest_leaf(std::vector<Leaf>& leaves, const Evaluator& evaluator,
                         std::int64_t& lowered) {
  const auto less = [](const Leaf& a, const Leaf& b) { return preference(a) < preference(b); };
  for (int round = 0;; ++round) {
    const auto closest = std::min_element(leaves.begin(), leaves.end(), less);
    if (closest->rung >= Rung::kFitted || round == kRounds)
      return static_cast<std::size_t>(closest - leaves.begin());
    fit(*closest, evaluator);
    ++lowered;
  }
}

}  // namespace zplan
