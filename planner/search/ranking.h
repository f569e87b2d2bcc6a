// Of the plans simulated so far: which one is the fastest, and which one is recommended, by the
// rule of search.h.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/search/leaf.h"

namespace zplan {

class Ranking {
 public:
  explicit Ranking(const Evaluator& evaluator) : evaluator_(evaluator) {}

  // Simulated leaves, which stay where they are.
  void add(const std::vector<const Leaf*>& leaves);

  bool empty() const { return leaves_.empty(); }
  // Whether the plan was simulated, with whatever slack it fits with.
  bool has(const Plan& plan) const;
  const std::vector<const Leaf*>& leaves() const { return leaves_; }
  const Leaf& fastest() const { return *fastest_; }
  const Leaf& recommended() const { return *recommended_; }
  // Returns the longest time with which any plan is recommended, and that for plans as simple as
  // this one.
  Seconds limit() const;
  Seconds limit_of(const Plan& plan) const;
  bool is_near(const Leaf& leaf) const { return leaf.value() <= limit_of(leaf.candidate.plan); }
  // Returns whether only samples or simplicity decide between the plan and the recommended one.
  bool is_tied(const Leaf& leaf) const {
    return is_near(leaf) || leaf.value() <= recommended().value();
  }
  // Returns in how many of 100 samples the fastest plan beats this one, which is tied; nothing
  // where that is not known.
  std::optional<int> wins_over(const Leaf& leaf) const;
  bool told_apart(const Leaf& leaf) const { return wins_over(leaf).value_or(0) >= kToldApart; }

 private:
  void choose();

  const Evaluator& evaluator_;
  std::vector<const Leaf*> leaves_;
  const Leaf* fastest_ = nullptr;
  const Leaf* recommended_ = nullptr;
  // What wins_over() has found, by the places of the fastest and the other.
  mutable std::map<std::pair<std::size_t, std::size_t>, int> wins_;
};

}  // namespace zplan
