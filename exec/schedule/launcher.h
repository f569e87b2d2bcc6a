// The launching thread of one rank whose launched lanes are queues of a device: queues their nodes
// in program order, with an event or a flag for each edge between two lanes, and returns to the
// step gate. Nodes of the other lanes have threads of their own (threaded.h).
//
// Edge from queue to queue: an event, recorded after the instance that the edge names. To or from a
// host lane: a flag that holds the lane's count (progress.h). Which nodes are followed by either is
// known ahead of the first step.
//
// Graphs: the nodes between two that have to do with the host, are transfers, or communicate in a
// way that cannot be captured, form a segment, which is launched as one. A segment begins after all
// that was queued before it and ends before all that comes later, transfers excepted: between
// stages that send to each other a segment that waited for a transfer of which none of its nodes
// needs anything could wait for itself. All segments are captured ahead of the first step: a driver
// that makes a graph may hold its locks until what is queued is done, which may be waiting for a
// flag that another rank's thread has yet to queue, behind those locks.
//
// The thread runs at most kStepsAhead steps ahead of the device, and on each lane at most
// 2 kOpsAhead operations and some graphs: a driver whose queue is full blocks the thread inside,
// where it hears of no failure and may hold up the threads of other ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "exec/comm/queued_comm.h"
#include "exec/schedule/progress.h"
#include "exec/schedule/queues.h"
#include "exec/schedule/rank.h"
#include "exec/schedule/step_border.h"

namespace zplan::exec {

// What the launching thread shares with the lanes of its rank that are threads.
struct HostSide {
  std::array<Progress*, kLaneCount> progress{};
  StopSignal* signal = nullptr;
};

class Launcher {
 public:
  // `lanes` are those of the rank that are launched, in lane order; the rank's backend has queues.
  // Makes everything that a step needs.
  Launcher(RunState& state, const Rank& rank, const std::vector<LaneRun*>& lanes, QueuedComm& comm,
           HostSide host);

  void set_border(StepBorder& border) { border_ = &border; }
  // All steps. Throws Error, or Stopped when another thread failed.
  void run();

 private:
  static constexpr std::int64_t kStepsAhead = 2;
  // [assumed] queues hold about a thousand entries; where ranks meet by flags, an operation takes
  // two for each member of its group, and some for its edges.
  static constexpr std::int64_t kOpsAhead = 32;
  static constexpr std::int64_t kNoCount = -1;

  // Events of a lane's instances that other queues wait for: the latest ones, in a ring.
  struct EventRing {
    std::vector<EventId> events;
    std::vector<std::int64_t> counts;  // completed instances that each stands for
    std::size_t next = 0;
    std::optional<EventId> event_of(std::int64_t completed) const;
  };
  struct LaneState {
    LaneRun* run = nullptr;  // null: no queue
    EventRing ring;
    std::array<EventId, kStepsAhead> step_end{};  // by step
    std::array<EventId, 2> ops_end{};             // of kOpsAhead operations or a graph, in turn
    std::size_t next_ops_end = 0;
    std::int64_t ops = 0;  // launched since one of them was recorded
    std::int64_t launched = 0;
    // Of each other lane: how many instances are known to be done before what comes next here.
    std::array<std::int64_t, kLaneCount> known{};
  };
  struct TimedOperation {
    LaneRun* run;
    std::int64_t step;
    OpId op;
    EventId start, end;
  };

  struct Segment {
    GraphId graph = 0;
    std::int64_t ops = 0;
  };
  struct SegmentEnd {
    EventId event;
    std::array<std::int64_t, kLaneCount> counts{};  // launched by then, of lanes in graphs
  };

  void find_followers();
  void make_events();
  void capture_segments();
  void capture_segments(std::int64_t step);

  std::vector<Segment>& segments_of(std::int64_t step) {
    return segments_[state_.services.validates(step) ? 1 : 0];
  }

  // Calls border(opens) where a segment begins and where it has ended, and visit(instance,
  // in_segment) for each launched node of the step that the cursor stands at.
  template <typename Border, typename Visit>
  void walk_step(Cursor& cursor, const Border& border, const Visit& visit);
  void launch_step(std::int64_t step);
  void await_transfers(const Instance& at);
  void launch_segment(const Segment& segment);
  bool has_graphs() const { return state_.job->launch == LaunchMode::kGraph; }
  bool is_segment_node(NodeIndex node) const;
  void launch(const Instance& at, std::int64_t step);
  void wait_for(Lane lane, const Threshold& needed);
  EventId event_of(const Threshold& needed) const;
  void execute(const Instance& at, std::int64_t step);
  void execute(const Instance& at, std::int64_t step, const BoundOperands& operands);
  void follow(const Instance& at);
  void know_each_other(const std::vector<Lane>& lanes);

  void await_room(Lane lane, std::int64_t ops);
  void await(EventId event);
  void check_deadline(TimePoint::duration waited) const;
  void end_step(std::int64_t step);
  bool enter(std::int64_t step);
  void await_steps(std::int64_t end);
  void await_step(std::int64_t step);
  void report_times();

  LaneState& state_of(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }

  RunState& state_;
  const Rank& rank_;
  Queues& queues_;
  QueuedComm& comm_;
  HostSide host_;
  StepBorder* border_ = nullptr;
  std::int64_t awaited_ = 0;  // steps that the device is known to have ended
  std::array<LaneState, kLaneCount> lanes_;
  std::vector<Lane> queue_lanes_;
  std::vector<Lane> graph_lanes_;  // of them those that graphs are launched on: not transfers
  Cursor cursor_;
  std::vector<bool> event_follows_, flag_follows_, waits_for_host_;  // by node
  std::array<std::vector<Segment>, 2> segments_;  // of a step that trains, and that validates
  std::vector<SegmentEnd> segment_ends_;          // the latest ones, in a ring
  std::size_t next_segment_end_ = 0;
  std::vector<EventId> timing_;
  std::vector<TimedOperation> timed_;
};

}  // namespace zplan::exec
