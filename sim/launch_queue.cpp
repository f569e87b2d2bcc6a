#include "sim/launch_queue.h"

#include <algorithm>
#include <bit>

#include "planner/cost/step_totals.h"

namespace zplan::sim {

LaunchQueue::LaunchQueue(const ProgramIndex& index, std::span<const OpCost> costs, int depth,
                         std::int64_t steps, HostPath host)
    : cursor_(index, std::nullopt, false),
      program_(&index.program()),
      costs_(costs),
      depth_(std::max(depth, 1)),
      steps_(steps),
      host_(host) {
  for (std::size_t l = 0; l < kLaneCount; ++l) {
    if (index.lane_nodes(static_cast<Lane>(l)) > 0) {
      lanes_[l].times.resize(std::bit_ceil(static_cast<std::size_t>(depth_)));
    }
  }
  if (!cursor_.empty()) run();
}

std::optional<SimTime> LaunchQueue::launched_at(Lane lane, std::int64_t sequence) const {
  if (!is_launched(lane)) return SimTime{0};
  const LaneQueue& queue = lanes_[static_cast<std::size_t>(lane)];
  if (sequence >= queue.launched) return std::nullopt;
  return queue.time(sequence);
}

std::optional<Lane> LaunchQueue::waits_for() const {
  if (waits_ == HostWait::kCompute) return Lane::kCompute;
  if (waits_ == HostWait::kNothing) return stopped_at_;
  std::optional<Lane> last;
  SimTime latest{-1};
  for (std::size_t l = 0; l < kLaneCount; ++l) {
    const LaneQueue& queue = lanes_[l];
    if (queue.launched == queue.completed || queue.time(queue.launched - 1) < latest) continue;
    latest = queue.time(queue.launched - 1);
    last = static_cast<Lane>(l);
  }
  return last;
}

bool LaunchQueue::completed(Lane lane, SimTime now) {
  ++lanes_[static_cast<std::size_t>(lane)].completed;
  --outstanding_;
  if (waits_ == HostWait::kNothing ? stopped_at_ != lane : outstanding(waits_)) return false;
  if (host_.path != nullptr && now > free_at_) host_.path->host_resumes(host_.stage, now);
  free_at_ = std::max(free_at_, now);
  run();
  return true;
}

// Launches of the past matter only by having happened; one in the future comes nearer, so that the
// state of a thread that stands still meanwhile equals no other.
void LaunchQueue::append_state(SimTime now, bool moves, std::vector<std::int64_t>& out) const {
  const auto from_now = [&](SimTime t) { return std::max<std::int64_t>(0, (t - now).value); };
  out.push_back(stopped_at_ ? static_cast<std::int64_t>(*stopped_at_) : -1);
  out.push_back(from_now(free_at_));
  for (const LaneQueue& queue : lanes_) {
    if (queue.times.empty()) continue;
    out.push_back(moves ? queue.launched - queue.completed : queue.launched);
    if (!moves) continue;
    for (std::int64_t op = queue.launched - 1; op >= queue.completed; --op) {
      const std::int64_t time = from_now(queue.time(op));
      if (time == 0) break;
      out.push_back(time);
    }
  }
}

void LaunchQueue::skip(std::int64_t iterations,
                       const std::array<std::int64_t, kLaneCount>& ops_per_iteration, SimTime time,
                       bool moves) {
  if (moves) {
    cursor_.skip(1, iterations);
    free_at_ += time;
  }
  for (std::size_t l = 0; l < kLaneCount; ++l) {
    LaneQueue& queue = lanes_[l];
    const std::int64_t ops = iterations * ops_per_iteration[l];
    if (ops == 0) continue;
    queue.completed += ops;
    if (!moves) {
      if (is_launched(static_cast<Lane>(l))) outstanding_ -= ops;
      continue;
    }
    queue.launched += ops;
    for (SimTime& launched : queue.times) launched += time;
    std::rotate(queue.times.begin(),
                queue.times.end() - static_cast<std::ptrdiff_t>(queue.place(ops)),
                queue.times.end());
  }
}

bool LaunchQueue::outstanding(HostWait wait) const {
  if (wait != HostWait::kCompute) return wait == HostWait::kDevice && outstanding_ > 0;
  const LaneQueue& compute = lanes_[static_cast<std::size_t>(Lane::kCompute)];
  return compute.launched > compute.completed;
}

void LaunchQueue::run() {
  stopped_at_.reset();
  waits_ = HostWait::kNothing;
  for (; cursor_->step() < steps_; cursor_.advance()) {
    const Node& node = program_->nodes[cursor_->node];
    const Lane lane = node.lane;
    if (!is_launched(lane)) continue;
    LaneQueue& queue = lanes_[static_cast<std::size_t>(lane)];
    if (queue.launched - queue.completed >= depth_) {
      stopped_at_ = lane;
      return;
    }
    const OpCost& cost = costs_[cursor_->node];
    if (outstanding(cost.host_waits)) {
      waits_ = cost.host_waits;
      return;
    }
    free_at_ += cost.launch;
    if (host_.path != nullptr) host_.path->host_launches(host_.stage, cost);
    queue.times[queue.place(queue.launched)] = free_at_;
    ++queue.launched;
    ++outstanding_;
  }
}

}  // namespace zplan::sim
