// The plans that a search has neither simulated nor proven not to fit, by family: which one has the
// least bound, and which one of those that could still be the answer.
#pragma once

#include <map>

#include "planner/search/leaf.h"
#include "planner/search/ranking.h"

namespace zplan {

class OpenFamilies {
 public:
  // `ranking` decides what could still be the answer; it must not change afterwards.
  explicit OpenFamilies(const Ranking& ranking) : ranking_(ranking) {}

  // No plan that the leaf stands for is faster than the bound.
  void add(const Leaf& leaf, Seconds bound);

  // Those with the least bounds; null: there is none.
  const Leaf* least() const;
  const Leaf* least_of(const Family& family) const { return find(least_, family); }
  // Of plans that could be faster than what is recommended, or as fast as is near enough, and
  // simpler.
  const Leaf* undecided(const Family& family) const { return find(undecided_, family); }

 private:
  using Least = std::map<Family, Leaf>;
  static const Leaf* find(const Least& least, const Family& family);
  static void keep(Least& least, const Family& family, const Leaf& leaf, Seconds bound);
  bool could_win(const Plan& plan, Seconds bound) const;

  const Ranking& ranking_;
  Least least_, undecided_;
};

}  // namespace zplan
