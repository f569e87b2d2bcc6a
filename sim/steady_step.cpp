#include "sim/steady_step.h"

#include <algorithm>
#include <utility>

namespace zplan::sim {

bool SteadyStep::repeats(SimTime now, std::int64_t steps, std::int64_t more,
                         const std::deque<ClassState>& classes, FlowNetwork& network,
                         std::span<const std::uint32_t> flow_leader) {
  std::swap(before_, latest_);
  latest_.clear();
  if (!network.append_state(now, flow_leader, latest_)) {
    latest_.clear();
    return false;
  }
  furthest_ = 0;
  for (const ClassState& own : classes) write_class(own, now, steps);
  return latest_ == before_ && furthest_ + more < max_steps_;
}

void SteadyStep::write_class(const ClassState& own, SimTime now, std::int64_t steps) {
  latest_.insert(latest_.end(), {own.busy, own.launch_waiters});
  latest_.insert(latest_.end(), own.waiters.begin(), own.waiters.end());
  const Instance& launch = own.launches.place();
  furthest_ = std::max(furthest_, launch.step());
  latest_.insert(latest_.end(), {launch.node, launch.step() - steps});
  latest_.insert(latest_.end(), launch.iterations.begin() + 1, launch.iterations.end());
  own.launches.append_state(now, true, latest_);
  for (std::size_t l = 0; l < kLaneCount; ++l)
    if (own.lanes[l].per_step > 0) write_lane(own, static_cast<Lane>(l), now, steps);
}

void SteadyStep::write_lane(const ClassState& own, Lane lane, SimTime now, std::int64_t steps) {
  const LaneState& at = own.lanes[static_cast<std::size_t>(lane)];
  const Instance& place = *at.cursor;
  furthest_ = std::max(furthest_, place.step());
  latest_.insert(latest_.end(),
                 {static_cast<std::int64_t>(at.state), place.node, place.step() - steps});
  latest_.insert(latest_.end(), place.iterations.begin() + 1, place.iterations.end());
  for (const Wait& wait : at.waits) {
    const std::int64_t by_now = own.lanes[wait.lane].per_step * steps;
    latest_.insert(latest_.end(), {wait.lane, wait.completed - by_now});
  }
  latest_.push_back(static_cast<std::int64_t>(at.reuse_waits));
  latest_.push_back(at.wake.value);
  const bool blocked = at.state == HeadState::kBlocked;
  const bool started = at.state == HeadState::kRunning || at.state == HeadState::kLatency;
  const auto launched = own.launches.launched_at(lane, at.completed);
  if (blocked) latest_.push_back((at.data_ready - now).value);
  if (blocked && launched) latest_.push_back((std::max(*launched, at.data_ready) - now).value);
  if (!blocked) latest_.push_back(((started ? at.start : at.ready) - now).value);
  const bool has_end = at.state == HeadState::kRunning && at.due > now;  // else it is a flow
  latest_.push_back(has_end ? (at.due - now).value : 0);
}

}  // namespace zplan::sim
