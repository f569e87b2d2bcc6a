#include "sim/launch_queue.h"

#include <algorithm>

namespace zplan::sim {

LaunchQueue::LaunchQueue(const ProgramIndex& index, SimTime overhead, int depth, std::int64_t steps)
    : cursor_(index, std::nullopt),
      program_(&index.program()),
      overhead_(overhead),
      depth_(std::max(depth, 1)),
      steps_(steps) {
  for (std::size_t l = 0; l < kLaneCount; ++l) {
    if (index.lane_nodes(static_cast<Lane>(l)) > 0) {
      lanes_[l].times.resize(static_cast<std::size_t>(depth_));
    }
  }
  if (!cursor_.empty()) run();
}

std::optional<SimTime> LaunchQueue::launched_at(Lane lane, std::int64_t sequence) const {
  if (lane == Lane::kCpu) return SimTime{0};
  const LaneQueue& queue = lanes_[static_cast<std::size_t>(lane)];
  if (sequence >= queue.launched) return std::nullopt;
  return queue.times[static_cast<std::size_t>(sequence % depth_)];
}

bool LaunchQueue::completed(Lane lane, SimTime now) {
  ++lanes_[static_cast<std::size_t>(lane)].completed;
  if (stopped_at_ != lane) return false;
  free_at_ = std::max(free_at_, now);
  run();
  return true;
}

void LaunchQueue::run() {
  stopped_at_.reset();
  for (; cursor_->step() < steps_; cursor_.advance()) {
    const Node& node = program_->nodes[cursor_->node];
    const Lane lane = node.lane;
    if (lane == Lane::kCpu) continue;
    LaneQueue& queue = lanes_[static_cast<std::size_t>(lane)];
    if (queue.launched - queue.completed >= depth_) {
      stopped_at_ = lane;
      return;
    }
    if (node.kind != OpKind::kMark) free_at_ += overhead_;
    queue.times[static_cast<std::size_t>(queue.launched % depth_)] = free_at_;
    ++queue.launched;
  }
}

}  // namespace zplan::sim
