#include "planner/cost/bounds.h"

#include <fmt/format.h>

#include <utility>

namespace zplan {

TimeBound time_bound(const CostModel& model, const StepTotals& totals) {
  TimeBound bound;
  const auto offer = [&](TimeBound other, const auto& describe) {
    if (other.seconds <= bound.seconds) return;
    bound = std::move(other);
    bound.resource = describe();
  };
  for (std::size_t stage = 0; stage < totals.classes.size(); ++stage) {
    const ClassTotals& own = totals.classes[stage];
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      offer({to_seconds(own.lane[l]), BoundBy::kLane, stage, l, {}},
            [&] { return fmt::format("stage {} {}", stage, name(static_cast<Lane>(l))); });
    }
    offer({to_seconds(own.launch), BoundBy::kLaunch, stage, 0, {}},
          [&] { return fmt::format("stage {} launch", stage); });
  }
  for (std::size_t i = 0; i < totals.links.size(); ++i) {
    const CostLink& link = model.links()[i];
    offer({totals.links[i], BoundBy::kLink, 0, i, {}},
          [&] { return fmt::format("{} ({})", link.kind, link.name); });
  }
  return bound;
}

Seconds seconds_lower_bound(const Job& job, const Cluster& cluster) {
  const CostModel model(job, cluster);
  return time_bound(model, step_totals(model)).seconds;
}

}  // namespace zplan
