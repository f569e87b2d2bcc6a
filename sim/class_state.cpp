#include "sim/class_state.h"

namespace zplan::sim {
namespace {

TimePart part_of(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return TimePart::kCompute;
    case Lane::kCommGather:
    case Lane::kCommReduce:
      return TimePart::kGatherReduce;
    case Lane::kCommTensor:
      return TimePart::kTensor;
    case Lane::kSendForwardUp:
    case Lane::kSendForwardDown:
    case Lane::kSendBackwardUp:
    case Lane::kSendBackwardDown:
    case Lane::kReceiveForwardUp:
    case Lane::kReceiveForwardDown:
    case Lane::kReceiveBackwardUp:
    case Lane::kReceiveBackwardDown:
      return TimePart::kPipeline;
    case Lane::kH2d:
    case Lane::kD2h:
      return TimePart::kCopies;
    case Lane::kCpu:
    case Lane::kInput:
      return TimePart::kCpu;
    case Lane::kIoRead:
      return TimePart::kIoRead;
    case Lane::kIoWrite:
      return TimePart::kIoWrite;
  }
  return TimePart::kWait;
}

}  // namespace

// Heads wait for ops that come before them in program order, and so does the host before it
// launches them, so the walk ends.
Moment ClassState::moment_now() const {
  constexpr unsigned kComputeBit = 1u << static_cast<unsigned>(Lane::kCompute);
  auto lane = static_cast<std::size_t>(Lane::kCompute);
  if ((busy & kComputeBit) != 0) return {TimePart::kCompute, lanes[lane].cursor->node};
  for (std::size_t walked = 0; walked < kLaneCount; ++walked) {
    const LaneState& at = lanes[lane];
    const NodeIndex node = at.cursor->node;
    switch (at.state) {
      case HeadState::kRunning:
      case HeadState::kLatency:
        return {part_of(static_cast<Lane>(lane)), node};
      case HeadState::kLaunching:
        return {TimePart::kLaunch, node, HeldBy::kLaunch};
      case HeadState::kMeeting:
      case HeadState::kDone:
        return {TimePart::kWait, node, HeldBy::kPeers};
      case HeadState::kBlocked:
        break;
    }
    if (at.waits.empty()) {  // The host has not reached it.
      const std::optional<Lane> awaited = launches.waits_for();
      if (!awaited) return {TimePart::kLaunch, node, HeldBy::kLaunch};
      lane = static_cast<std::size_t>(*awaited);
    } else {
      lane = at.waits.back().lane;
    }
  }
  return {TimePart::kWait, lanes[lane].cursor->node, HeldBy::kPeers};
}

}  // namespace zplan::sim
