// What the climb over the leaves leaves open, for the gap and its proof: every variant
// (variants.h) of every leaf whose floor is below a limit, of leaves set aside, too.
//
// Variants that differ in homes alone are open together until what all of them have to do is known
// (shared_work.h), then each with all its depths of prefetch under its own floor until it is
// lowered, then under the bound of its deepest one. Where that is below the limit the least depth
// is placed. What does not fit is closed: [derived] a deeper ring takes no less memory than a
// shallower one, so all depths are closed with the least. Then each depth is open by itself until
// its own bound closes it, or it is simulated.
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
  std::vector<Leaf> homes{};  // that it stands for, until what they share is known
  double slack = 0;           // that it may have where it fits
  Seconds any_depth{};        // where it is placed: bound of all depths
  bool has_job = false;       // the bound is that of its Job
  bool has_depth = false;     // stands for its own prefetch alone
  bool is_known = false;      // stands for nothing: it was simulated as another leaf, or others do
};

class OpenPlans {
 public:
  // `evaluator` answers for single plans, which it takes as they are.
  OpenPlans(const Variants& variants, const Evaluator& evaluator)
      : variants_(variants), evaluator_(evaluator) {}

  // All variants that may fit of leaves that differ in homes alone.
  void add(const std::vector<Plan>& leaves);

  // Takes those with the least bounds below the limit that are on the same rung.
  std::vector<OpenPlan*> next(Seconds limit, std::size_t most_fits, std::size_t most_simulations);
  // One rung up. Several may rise at a time.
  void raise(OpenPlan& open) const;
  // What has risen and is neither simulated nor misfit is open again; where it stands for several
  // plans, and these are below the limit, they take its place, but those that `is_known`.
  void put_back(const std::vector<OpenPlan*>& risen, Seconds limit,
                const std::function<bool(const Plan&)>& is_known);

  // Of what was added and not simulated, what settled it: that it does not fit, or that its bound
  // is not below the limit. `with_group` and `simulated` stay zero.
  Cuts cuts(Seconds limit) const;

  // Each leaf that is open; its bound is of all that is open of it.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& [bound, open] : queue_)
      if (open->homes.empty())
        visit(open->leaf);
      else
        std::ranges::for_each(open->homes, visit);
  }

  // The least bound of what is open; nothing: all is closed.
  std::optional<Seconds> least() const;

 private:
  void enter(Plan plan, Seconds bound, bool has_depth);
  void share_work(OpenPlan& open) const;
  void bound_job(OpenPlan& open) const;
  void split_homes(OpenPlan& open);
  void split_depths(OpenPlan& open, const std::function<bool(const Plan&)>& is_known);
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
