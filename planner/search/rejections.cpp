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
  const auto [needed, available] = format_apart(why.needed, why.available);
  return fmt::format("{} memory: {}{} needed, {} there", name(why.tier),
                     why.is_bound() ? "at least " : "", needed, available);
}

// What decided between a plan within the tie tolerance and the recommended one.
std::string tie_reason(const Leaf& lost, const Ranking& ranking) {
  if (ranking.told_apart(lost))
    return fmt::format("slower than the fastest in {} of 100 samples", *ranking.wins_over(lost));
  const Leaf& winner = ranking.recommended();
  const std::string_view more =
      first_difference(simplicity_of(lost.candidate.plan), simplicity_of(winner.candidate.plan));
  if (!more.empty()) return fmt::format("but less simple: {}", more);
  return lost.gpu == winner.gpu ? "as simple, too, but later in order" : "but uses more GPU memory";
}

// Of a plan that was simulated.
std::string slower(const Leaf& lost, const Ranking& ranking) {
  const std::string own = format_seconds(lost.value());
  const std::string other = format_seconds(ranking.recommended().value());
  if (!ranking.is_tied(lost)) return fmt::format("fits, but slower: {} against {}", own, other);
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

using Families = std::map<Family, const Leaf*>;

// The fastest of each family: of the plans found by tuning, too.
Families fastest_simulated(const Ranking& ranking) {
  Families fastest;
  for (const Leaf* const leaf : ranking.leaves()) {
    const Leaf*& at = fastest[family_of(leaf->candidate.plan)];
    if (at == nullptr || leaf->value() < at->value()) at = leaf;
  }
  return fastest;
}

// What is known of a family but for the plans that could still be the answer.
Rejected as_known(const Leaf* simulated, const Leaf* open, const Leaf& other,
                  const Ranking& ranking) {
  if (simulated != nullptr)
    return {.family = {},
            .best = simulated->candidate,
            .reason = slower(*simulated, ranking),
            .standing = ranking.is_tied(*simulated) ? Standing::kTied : Standing::kRejected};
  const Leaf& leaf = open != nullptr ? *open : other;
  if (leaf.out())
    return {.family = {}, .best = leaf.candidate, .reason = too_large(*leaf.candidate.infeasible)};
  if (leaf.set_aside)
    return {.family = {},
            .best = leaf.candidate,
            .reason = "set aside: the same plan fits with its states closer to the GPU",
            .standing = Standing::kSetAside};
  return {.family = {},
          .best = leaf.candidate,
          .reason = fmt::format(
              "{}: at least {} against {}",
              leaf.rung < Rung::kFitted ? "slower if it fits" : "fits, but slower",
              format_seconds(leaf.value()), format_seconds(ranking.recommended().value()))};
}

// A plan of the family that could be the answer was not simulated.
void set_not_tried(Rejected& line, const Leaf& undecided, const Ranking& ranking) {
  const std::string from = format_seconds(undecided.candidate.bound);
  line.standing = Standing::kNotTried;
  line.from = undecided.candidate.bound;
  const std::string against = format_seconds(ranking.recommended().value());
  if (line.best.step) {
    line.reason = fmt::format("tried in part: {}; others could take from {} on, against {}",
                              format_seconds(*line.best.step), from, against);
    return;
  }
  line.best = undecided.candidate;
  line.reason = fmt::format("not tried: could take from {} on, against {}", from, against);
}

}  // namespace

std::string_view name(Standing standing) {
  constexpr std::string_view kNames[] = {"rejected", "tie", "set_aside", "not_tried"};
  return kNames[static_cast<std::size_t>(standing)];
}

std::vector<Rejected> rejections(const std::vector<Leaf>& leaves, const Ranking& ranking,
                                 const OpenFamilies& open) {
  Families families;  // the best leaf of each
  for (const Leaf& leaf : leaves) {
    const Leaf*& at = families[family_of(leaf.candidate.plan)];
    if (at == nullptr || preference(leaf) < preference(*at)) at = &leaf;
  }
  if (!ranking.empty()) families.erase(family_of(ranking.recommended().candidate.plan));
  const Families simulated = fastest_simulated(ranking);
  std::vector<Rejected> result;
  for (const auto& [family, leaf] : families) {
    const auto at = simulated.find(family);
    Rejected line = as_known(at == simulated.end() ? nullptr : at->second, open.least_of(family),
                             *leaf, ranking);
    line.family = family;
    if (const Leaf* const undecided = open.undecided(family))
      set_not_tried(line, *undecided, ranking);
    result.push_back(std::move(line));
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
