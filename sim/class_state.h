// State of one rank class during a simulation: where each lane stands, what its head waits for, and
// what its time went to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/program/cursor.h"
#include "planner/program/timeline.h"
#include "sim/launch_queue.h"
#include "sim/requirements.h"

namespace zplan::sim {

// What became of the time of one lane in one step.
struct LaneTimes {
  SimTime busy{0};         // from start to end of its ops
  SimTime latency{0};      // part of busy: before the first byte of transfers
  SimTime peer_wait{0};    // head ready, other members not
  SimTime reuse_wait{0};   // head waits for nothing but reuse edges
  SimTime launch_wait{0};  // head waits for nothing but its launch
};

enum class HeadState : std::uint8_t {
  kBlocked,    // thresholds unmet, or not yet launched by a stopped host
  kLaunching,  // will be launched at a known time
  kMeeting,    // ready, waits for the other members
  kLatency,    // started, the first byte has not moved
  kRunning,
  kDone,  // no more steps to run
};

struct Wait {
  std::uint8_t lane = 0;
  std::int64_t completed = 0;
};

struct LaneState {
  Cursor cursor;
  HeadState state = HeadState::kDone;
  std::int64_t per_step = 0;   // ops
  std::int64_t completed = 0;  // ops, over all steps
  std::vector<Wait> waits{};   // unmet; reuse edges first, worked off from the back
  std::size_t reuse_waits = 0;
  SimTime data_ready{0};  // when all but reuse edges were met
  SimTime ready{0}, start{0};
  std::vector<LaneTimes> times{};  // by step
};

// Splits the time of a class by the lanes that are busy. A lane is exposed while it is busy and the
// compute lane is not.
class BusyClock {
 public:
  void set(Lane lane, bool busy, SimTime now) {
    move_to(now);
    const unsigned bit = 1u << static_cast<unsigned>(lane);
    mask_ = busy ? mask_ | bit : mask_ & ~bit;
  }
  void move_to(SimTime now) {
    const SimTime passed = now - now_;
    now_ = now;
    if ((mask_ & 1u) != 0 || passed.value == 0) return;
    if (mask_ == 0) idle_ += passed;
    for (std::size_t l = 1; l < kLaneCount; ++l) {
      if ((mask_ >> l & 1u) != 0) exposed_[l] += passed;
    }
  }
  SimTime exposed(std::size_t lane) const { return exposed_[lane]; }
  SimTime idle() const { return idle_; }  // no lane busy

 private:
  static_assert(static_cast<unsigned>(Lane::kCompute) == 0);
  unsigned mask_ = 0;
  SimTime now_{0}, idle_{0};
  std::array<SimTime, kLaneCount> exposed_{};
};

struct ClassState {
  ClassState(const Program& program, SimTime launch_overhead, int launch_depth, std::int64_t steps)
      : index(program), requirements(index), launches(index, launch_overhead, launch_depth, steps) {
    lanes.reserve(kLaneCount);
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      const auto lane = static_cast<Lane>(l);
      lanes.push_back({.cursor = Cursor(index, lane)});
      lanes.back().per_step = index.lane_nodes(lane);
      lanes.back().times.resize(static_cast<std::size_t>(steps));
    }
  }
  ClassState(const ClassState&) = delete;  // cursors point into index
  ClassState& operator=(const ClassState&) = delete;

  const Program& program() const { return index.program(); }
  const Node& head(std::size_t lane) const { return program().nodes[lanes[lane].cursor->node]; }

  ProgramIndex index;
  Requirements requirements;
  LaunchQueue launches;
  std::vector<LaneState> lanes;
  std::array<unsigned, kLaneCount> waiters{};  // lanes whose head waits for this lane, as bits
  unsigned launch_waiters = 0;                 // lanes whose head the host has not reached
  BusyClock clock;
  std::vector<Span> spans;
};

}  // namespace zplan::sim
