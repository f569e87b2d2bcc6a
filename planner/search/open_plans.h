// What the climb over the leaves leaves open, for the gap and its proof: every variant
// (variants.h) of every leaf whose floor is below a limit, of leaves set aside, too.
//
// A variant is open under its own floor until it is fitted with the least prefetch; then all depths
// are, under what bounds that Job, and each until it is simulated. What does not fit is closed.
// [derived] A deeper ring takes no less memory than a shallower one, so all depths are closed with
// the least.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "planner/search/leaf.h"
#include "planner/search/variants.h"

namespace zplan {

struct OpenPlan {
  Leaf leaf;
  double slack = 0;        // that it may have where it fits
  bool has_depth = false;  // its prefetch is settled: what is left is to simulate it
};

class OpenPlans {
 public:
  // `evaluator` answers for single plans, which it takes as they are.
  OpenPlans(const Variants& variants, const Evaluator& evaluator)
      : variants_(variants), evaluator_(evaluator) {}

  // All variants of the leaf that may fit; of a group of leaves that differ in homes alone.
  void add(const Plan& leaf);

  // Takes those with the least bounds below the limit that are on the same rung.
  std::vector<OpenPlan*> next(Seconds limit, std::size_t most_fits, std::size_t most_simulations);
  // One rung up; simulates only what may be below the limit. Several may rise at a time.
  void raise(OpenPlan& open, Seconds limit) const;
  // What has risen: depths take the place of what was fitted, but those that `is_known`; what is
  // neither simulated nor misfit is open again.
  void put_back(const std::vector<OpenPlan*>& risen,
                const std::function<bool(const Plan&)>& is_known);

  // Each leaf that is open; its bound is of all that is open of it.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& [bound, open] : queue_) visit(open->leaf);
  }
  // The least bound of what is open; nothing: all is closed.
  std::optional<Seconds> least() const;

 private:
  void enter(Plan plan, Seconds bound, bool has_depth);

  const Variants& variants_;
  const Evaluator& evaluator_;
  std::deque<OpenPlan> plans_;
  std::multimap<double, OpenPlan*> queue_;  // by bound, those entered first before others
};

}  // namespace zplan
