// When the host of a rank has launched each op. One thread launches the ops of all lanes but those
// of the host itself (is_launched) in program order, each in its time (OpCost::launch). It stops
// before an op whose lane has `depth` ops outstanding (launched and not completed) until one of
// them completes, and before one that waits (OpCost::host_waits) until nothing is outstanding on
// the compute lane or on any.
//
// Launch times are found ahead of the simulated clock: outstanding ops only become fewer between
// two launches, so whether the thread stops depends on completions already seen.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/program/instances/cursor.h"
#include "sim/critical_path.h"

namespace zplan::sim {

// The path that is told of the host's time, and the class of the host.
struct HostPath {
  CriticalPath* path = nullptr;
  std::size_t stage = 0;
};

class LaunchQueue {
 public:
  // `costs`: of the nodes of the program; outlives this.
  LaunchQueue(const ProgramIndex& index, std::span<const OpCost> costs, int depth,
              std::int64_t steps, HostPath host = {});

  // When op `sequence` of a lane was or will be launched; nothing while the thread cannot reach it.
  // Ask only for ops not yet completed.
  std::optional<SimTime> launched_at(Lane lane, std::int64_t sequence) const;

  // The lane whose ops the thread waits for: the one whose queue is full, or that must run empty;
  // of the whole device the one that holds the last launch of those outstanding. Nothing while the
  // thread does not wait.
  std::optional<Lane> waits_for() const;

  // An op of the lane completed. True when further ops were launched.
  bool completed(Lane lane, SimTime now);

  // For steady_loop.h: appends what decides the launches from now on. Times count from `now`; ops,
  // where the thread's place `moves` with the loop, from those completed.
  const Instance& place() const { return *cursor_; }
  void append_state(SimTime now, bool moves, std::vector<std::int64_t>& out) const;
  // Moves on by so many iterations and so much time; with `moves` the thread's place moves, too.
  void skip(std::int64_t iterations, const std::array<std::int64_t, kLaneCount>& ops_per_iteration,
            SimTime time, bool moves);

 private:
  struct LaneQueue {
    std::int64_t launched = 0, completed = 0;
    std::vector<SimTime> times;  // ring of the outstanding ops, by sequence; a power of two

    std::size_t place(std::int64_t sequence) const {
      return static_cast<std::size_t>(sequence) & (times.size() - 1);
    }
    SimTime time(std::int64_t sequence) const { return times[place(sequence)]; }
  };
  void run();  // launches until the thread stops
  bool outstanding(HostWait wait) const;

  Cursor cursor_;
  const Program* program_;
  std::span<const OpCost> costs_;
  std::int64_t depth_, steps_;
  HostPath host_;
  SimTime free_at_{0};  // when the thread is done with the last launch
  std::optional<Lane> stopped_at_;
  HostWait waits_{};              // until nothing is outstanding, there or anywhere
  std::int64_t outstanding_ = 0;  // launched and not completed, on all lanes
  std::array<LaneQueue, kLaneCount> lanes_;
};

}  // namespace zplan::sim
