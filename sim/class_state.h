// State of one rank class during a simulation: where each lane stands, what its head waits for, and
// what its time went to.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/program/instances/cursor.h"
#include "planner/program/timeline/fold.h"
#include "sim/launch_queue.h"
#include "sim/requirements.h"
#include "sim/simulate.h"

namespace zplan::sim {

// What became of the time of one lane in one step.
struct LaneTimes {
  SimTime busy{0};         // from start to end of its ops
  SimTime latency{0};      // part of busy: before the first byte of transfers
  SimTime peer_wait{0};    // head ready, other members not
  SimTime reuse_wait{0};   // head waits for nothing but reuse edges
  SimTime launch_wait{0};  // head waits for nothing but its launch

  // Adds `times` what was added since `earlier`.
  void repeat_since(const LaneTimes& earlier, std::int64_t times) { add(*this, earlier, times); }
  // Adds `times` what was added from `earlier` to `later`.
  void add(const LaneTimes& later, const LaneTimes& earlier, std::int64_t times = 1) {
    for (SimTime LaneTimes::*part : {&LaneTimes::busy, &LaneTimes::latency, &LaneTimes::peer_wait,
                                     &LaneTimes::reuse_wait, &LaneTimes::launch_wait})
      this->*part += (later.*part - earlier.*part) * times;
  }
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
  SimTime wake{0};                 // that the head spends first, as its lane slept
  SimTime due{0};                  // of the event that the lane waits for; others are out of date
  std::vector<LaneTimes> times{};  // by step
};

// What a class does at a moment, or waits for: the part of the time, and the node that it is due
// to.
struct Moment {
  TimePart part = TimePart::kWait;
  NodeIndex node = 0;
  HeldBy held = HeldBy::kOp;
};

// Adds up the time of a class: by part, by node where that is asked for, and for each lane while it
// is busy and the compute lane is not (exposed). Time passes in the state the class has been in
// since the last call.
class StageClock {
 public:
  StageClock() = default;
  // Keeps time by node, too; of a program with so many, or of none.
  explicit StageClock(std::size_t nodes) : held_(nodes * kHeldByCount) {}

  SimTime now() const { return now_; }
  void pass(SimTime now, const Moment& moment, unsigned busy_lanes) {
    const SimTime passed = now - now_;
    now_ = now;
    parts_[static_cast<std::size_t>(moment.part)] += passed;
    if (!held_.empty()) held_[place_of(moment.node, moment.held)] += passed;
    if (moment.part == TimePart::kCompute) return;
    for (; busy_lanes != 0; busy_lanes &= busy_lanes - 1) {
      exposed_[static_cast<std::size_t>(std::countr_zero(busy_lanes))] += passed;
    }
  }
  // Adds `times` what passed since `earlier`, and stands so much later.
  void repeat_since(const StageClock& earlier, std::int64_t times) {
    now_ += (now_ - earlier.now_) * times;
    for (std::size_t l = 0; l < kLaneCount; ++l)
      exposed_[l] += (exposed_[l] - earlier.exposed_[l]) * times;
    for (std::size_t p = 0; p < kTimePartCount; ++p)
      parts_[p] += (parts_[p] - earlier.parts_[p]) * times;
    for (std::size_t i = 0; i < held_.size(); ++i)
      held_[i] += (held_[i] - earlier.held_[i]) * times;
  }
  SimTime exposed(std::size_t lane) const { return exposed_[lane]; }
  SimTime part(std::size_t part) const { return parts_[part]; }
  bool keeps_nodes() const { return !held_.empty(); }
  SimTime held(NodeIndex node, HeldBy by) const { return held_[place_of(node, by)]; }

 private:
  static std::size_t place_of(NodeIndex node, HeldBy by) {
    return node * kHeldByCount + static_cast<std::size_t>(by);
  }

  SimTime now_{0};
  std::array<SimTime, kLaneCount> exposed_{};
  std::array<SimTime, kTimePartCount> parts_{};
  std::vector<SimTime> held_;  // by node and what of it
};

struct ClassState {
  // `costs`: of the program's nodes.
  ClassState(const Program& program, std::span<const OpCost> costs, int launch_depth,
             std::int64_t steps, HostPath host = {}, bool by_node = false, bool folds = false)
      : index(program),
        costs(costs),
        requirements(index),
        launches(index, costs, launch_depth, steps, host),
        clock(by_node ? program.nodes.size() : 0),
        recorder(program, folds) {
    wake_at.fill(kNobodyWaits);
    lanes.reserve(kLaneCount);
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      const auto lane = static_cast<Lane>(l);
      lanes.push_back({.cursor = Cursor(index, lane, false)});
      lanes.back().per_step = index.lane_nodes(lane);
      lanes.back().times.resize(static_cast<std::size_t>(steps));
    }
  }
  ClassState(const ClassState&) = delete;  // cursors point into index
  ClassState& operator=(const ClassState&) = delete;

  const Program& program() const { return index.program(); }
  const Node& head(std::size_t lane) const { return program().nodes[lanes[lane].cursor->node]; }
  // Lets the clock catch up; to be called before anything of this class changes.
  void settle(SimTime now) {
    if (clock.now() < now) clock.pass(now, moment_now(), busy);
  }
  Moment moment_now() const;

  static constexpr std::int64_t kNobodyWaits = std::numeric_limits<std::int64_t>::max();

  ProgramIndex index;
  std::span<const OpCost> costs;  // by node
  Requirements requirements;
  LaunchQueue launches;
  std::vector<LaneState> lanes;
  std::array<unsigned, kLaneCount> waiters{};      // lanes whose head waits for this lane, as bits
  std::array<std::int64_t, kLaneCount> wake_at{};  // ops of the lane before which none goes on
  unsigned launch_waiters = 0;                     // lanes whose head the host has not reached
  unsigned busy = 0;                               // lanes whose head has started, as bits
  SimTime late{0};                                 // of the kernel that runs, or else the next one
  double slowdown = 0;                             // of compute, by the started ops beside it
  Constant slowed_by = 0;                          // the rate of the last of them
  StageClock clock;
  SpanRecorder recorder;
};

}  // namespace zplan::sim
