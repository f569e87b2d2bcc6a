// The plans that the cross-checks run: few legal plans that together have every pair of two levels
// that a legal plan was found to have. Built greedily: a pair that no plan has yet is completed to
// a legal plan, which then changes level by level to what covers more. Deterministic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"

namespace zplan::testing_support {

// Of two factors, or a level with itself.
struct Pair {
  std::size_t f;
  int f_level;
  std::size_t g;
  int g_level;

  bool is_of(std::size_t factor) const { return factor == f || factor == g; }
  bool is_in(const Choice& c) const { return c[f] == f_level && c[g] == g_level; }
  void set(Choice& c) const {
    c[f] = f_level;
    c[g] = g_level;
  }
};

// Pairs that no plan has yet: a square over all levels of all factors.
class OpenPairs {
 public:
  OpenPairs() {
    for (const Factor& factor : factors()) {
      first_.push_back(size_);
      size_ += static_cast<std::size_t>(factor.levels);
    }
    open_.assign(size_ * size_, 0);
  }

  bool has(const Pair& p) const { return open_[at(p.f, p.f_level) * size_ + at(p.g, p.g_level)]; }
  void open(const Pair& p) { set(p, 1); }
  void close(const Choice& c) {
    for (std::size_t f = 0; f < c.size(); ++f)
      for (std::size_t g = 0; g <= f; ++g) set({f, c[f], g, c[g]}, 0);
  }

  // Those that a level of f has with the levels of the other factors, and with itself.
  int count(const Choice& c, std::size_t f, int level) const {
    const char* row = &open_[at(f, level) * size_];
    int sum = row[at(f, level)];
    for (std::size_t g = 0; g < c.size(); ++g)
      if (g != f) sum += row[at(g, c[g])];
    return sum;
  }
  // Those of two factors twice.
  int count(const Choice& c) const {
    int sum = 0;
    for (std::size_t f = 0; f < c.size(); ++f) sum += count(c, f, c[f]);
    return sum;
  }

 private:
  std::size_t at(std::size_t f, int level) const {
    return first_[f] + static_cast<std::size_t>(level);
  }
  void set(const Pair& p, char value) {
    const std::size_t a = at(p.f, p.f_level), b = at(p.g, p.g_level);
    open_[a * size_ + b] = open_[b * size_ + a] = value;
  }

  std::vector<std::size_t> first_;  // of each factor: where its levels begin
  std::size_t size_ = 0;
  std::vector<char> open_;
};

// Differs from the plain one in two to four levels.
inline Choice drawn_choice(std::mt19937_64& random) {
  Choice c(factors().size());
  for (std::uint64_t n = 2 + random() % 3; n > 0; --n) {
    const std::size_t f = random() % c.size();
    c[f] = static_cast<int>(random() % static_cast<std::uint64_t>(factors()[f].levels));
  }
  return c;
}

class PlanCover {
 public:
  PlanCover(std::uint64_t seed, const std::vector<Pair>& pairs) : random_(seed) {
    for (const Pair& pair : pairs) open_.open(pair);
    // A pair that cannot be completed at first may be from a plan that was found for another.
    for (std::size_t before = 1; before != chosen_.size();) {
      before = chosen_.size();
      for (const Pair& pair : pairs)
        if (open_.has(pair)) add_plan_with(pair);
    }
    add_drawn_plans();
  }

  const std::vector<Choice>& plans() const { return chosen_; }

 private:
  void add_plan_with(const Pair& pair) {
    constexpr int kCandidates = 10;  // of which the one is taken that covers most
    Choice best, c;
    for (int i = 0; i < kCandidates && complete(pair, c); ++i) {
      cover_more(pair, c);
      if (best.empty() || open_.count(c) > open_.count(best)) best = c;
    }
    if (best.empty()) return;
    open_.close(best);
    chosen_.push_back(best);
  }

  // Pairs that no search completes may be in legal plans near the plain one, drawn at random.
  void add_drawn_plans() {
    constexpr int kDraws = 100'000;
    for (int i = 0; i < kDraws; ++i) {
      const Choice c = drawn_choice(random_);
      if (open_.count(c) == 0 || !is_legal(c)) continue;
      open_.close(c);
      chosen_.push_back(c);
    }
  }

  // A legal plan that has the pair: from the plain one, or from one that has half of the pair.
  bool complete(const Pair& pair, Choice& c) {
    c.assign(factors().size(), 0);
    pair.set(c);
    if (walk_to_legal(pair, c)) return true;
    for (const auto& [f, level] : {std::pair{pair.f, pair.f_level}, {pair.g, pair.g_level}}) {
      std::uint64_t having = 0;
      for (const Choice& known : chosen_)
        if (known[f] == level && random_() % ++having == 0) c = known;
      pair.set(c);
      if (having > 0 && walk_to_legal(pair, c)) return true;
    }
    return false;
  }

  // Changes one or two other levels at a time, where no more rules break than did.
  bool walk_to_legal(const Pair& pair, Choice& c) {
    constexpr int kSteps = 150;
    int kept = rules_kept(c);
    for (int i = 0; i < kSteps && kept < kAllRules; ++i) {
      Choice changed = c;
      for (std::uint64_t n = random_() % 2; n < 2; ++n) {
        const std::size_t f = random_() % c.size();
        const auto levels = static_cast<std::uint64_t>(factors()[f].levels);
        const bool is_plain = random_() % 2 == 0;
        changed[f] = is_plain ? 0 : static_cast<int>(random_() % levels);
      }
      pair.set(changed);
      const int now = rules_kept(changed);
      if (now < kept) continue;
      c = changed;
      kept = now;
    }
    return kept == kAllRules;
  }

  // Until no other level of a single factor covers more.
  void cover_more(const Pair& pair, Choice& c) {
    std::vector<std::size_t> order(c.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (bool changes = true; changes;) {
      changes = false;
      std::shuffle(order.begin(), order.end(), random_);
      for (const std::size_t f : order)
        if (!pair.is_of(f) && take_best_level(f, c)) changes = true;
    }
  }

  bool take_best_level(std::size_t f, Choice& c) const {
    const int old = c[f];
    int best = old, most = open_.count(c, f, old);
    for (int level = 0; level < factors()[f].levels; ++level) {
      const int covers = open_.count(c, f, level);
      if (covers <= most) continue;
      c[f] = level;
      if (!is_legal(c)) continue;
      best = level;
      most = covers;
    }
    c[f] = best;
    return best != old;
  }

  std::mt19937_64 random_;
  OpenPairs open_;
  std::vector<Choice> chosen_;
};

// Those of factors with many levels first, which decide how many plans it takes.
inline std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (std::size_t f = 0; f < factors().size(); ++f)
    for (std::size_t g = f + 1; g < factors().size(); ++g)
      for (int a = 0; a < factors()[f].levels; ++a)
        for (int b = 0; b < factors()[g].levels; ++b) pairs.push_back({f, a, g, b});
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& x, const Pair& y) {
    const auto product = [](const Pair& p) {
      return factors()[p.f].levels * factors()[p.g].levels;
    };
    return product(x) > product(y);
  });
  return pairs;
}

inline std::vector<Pair> all_levels() {
  std::vector<Pair> levels;
  for (std::size_t f = 0; f < factors().size(); ++f)
    for (int level = 0; level < factors()[f].levels; ++level)
      levels.push_back({f, level, f, level});
  return levels;
}

// Another seed gives every pair other surroundings: ZPLAN_COVER_SEED=2 bin/test_crosscheck_cover.
inline std::vector<Choice> cover_of(const std::vector<Pair>& pairs) {
  const char* seed = std::getenv("ZPLAN_COVER_SEED");
  return PlanCover(seed == nullptr ? 1 : std::stoull(seed), pairs).plans();
}

// Few plans that together have every level.
inline const std::vector<Choice>& levelwise_choices() {
  static const std::vector<Choice> choices = cover_of(all_levels());
  return choices;
}

// Every pair of levels; under sanitizers every level.
inline const std::vector<Choice>& pairwise_choices() {
  if (kSanitized) return levelwise_choices();
  static const std::vector<Choice> choices = cover_of(all_pairs());
  return choices;
}

// The plain plan, then always the one that has most pairs that none before it has.
inline std::vector<Choice> in_order_of_new_pairs(std::vector<Choice> plans) {
  OpenPairs open;
  for (const Pair& pair : all_pairs()) open.open(pair);
  std::vector<Choice> ordered;
  const auto fewer = [&](const Choice& a, const Choice& b) {
    return open.count(a) < open.count(b);
  };
  auto next = std::find(plans.begin(), plans.end(), Choice(factors().size(), 0));
  while (!plans.empty()) {
    if (next == plans.end()) next = std::max_element(plans.begin(), plans.end(), fewer);
    open.close(*next);
    ordered.push_back(*next);
    plans.erase(next);
    next = plans.end();
  }
  return ordered;
}

// Tests train the sixth of the cover that has most pairs, and every level; they train all of it
// where everything is asked for.
inline const std::vector<Choice>& choices_to_train() {
  constexpr std::size_t kOneIn = 6;
  static const std::vector<Choice> choices = [] {
    const std::vector<Choice>& all = pairwise_choices();
    if (kSanitized || is_everything_asked_for()) return all;
    OpenPairs levels;
    for (const Pair& level : all_levels()) levels.open(level);
    std::vector<Choice> some;
    for (const Choice& c : in_order_of_new_pairs(all)) {
      if (some.size() >= all.size() / kOneIn && levels.count(c) == 0) continue;
      levels.close(c);
      some.push_back(c);
    }
    return some;
  }();
  return choices;
}

}  // namespace zplan::testing_support
