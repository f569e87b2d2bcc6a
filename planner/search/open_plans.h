// What the climb over the leaves leaves open, for the gap and its proof: every variant
// (variants.h) of every leaf whose floor is below a limit, of leaves set aside, too.
//
// A variant is open under its own floor until it is lowered, then under what its Job has to do.
// Where that is below the limit it is placed with the least prefetch; then all depths are open, the
// others under what bounds it with any prefetch, and each until it is simulated. What does not fit
// is closed. [derived] A deeper ring takes no less memory than a shallower one, so all depths are
// closed with the least.
#pragma once

#include <cstddef>
#include <cstdint>
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
  bool has_job = false;    // the bound is that of its Job
  bool has_depth = false;  // its prefetch is settled: what is left is to simulate it
  bool is_known = false;   // was simulated before, as another leaf
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

  // Of what was added and not simulated, what settled it: that it does not fit, or that its bound
  // is not below the limit. `with_group` and `simulated` stay zero.
  Cuts cuts(Seconds limit) const;

  // Each leaf that is open; its bound is of all that is open of it.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& [bound, open] : queue_) visit(open->leaf);
  }

  // The least bound of what is open; nothing: all is closed.
  std::optional<Seconds> least() const;

 private:
  void enter(Plan plan, Seconds bound, bool has_depth);
  std::int64_t depths(const Plan& plan) const {
    return static_cast<std::int64_t>(variants_.depths(plan).size());
  }

  const Variants& variants_;
  const Evaluator& evaluator_;
  std::deque<OpenPlan> plans_;
  std::int64_t misfits_ = 0;                // by bytes, with all depths
  std::multimap<double, OpenPlan*> queue_;  // by bound, those entered first before others
};

}  // namespace zplan
