// SteadyLoop: skips iterations of the micro-batch loops that repeat exactly.
//
// Each class has one loop over micro-batches to watch: the longest at depth 1. A lane is in it
// while its head lies there, in the step being watched; any other lane must stand still, or nothing
// is skipped. Once per iteration of one lane (a beat) the state of the engine is written down
// relative to the present: times from now, lanes in a loop from the iteration c_k of their class,
// thresholds from what the lane they name has completed, flows with their exact bytes and rates.
//
// If the states of two beats are equal, the same events follow after both, each d_k = c_k(later) -
// c_k(earlier) iterations and t = now(later) - now(earlier) on, because the engine is a function of
// that state as long as
//   - no place in a loop, the launching thread's included, passes its end: k d_k more iterations
//     must exist. A thread that is beyond the loop has launched all of it and must stand still;
//   - a threshold moves on with the lane it names (its coefficient of the loop is what the lane
//     completes per iteration), or does not move and is met by now whatever the iteration;
//   - what lanes that stand still wait for does not come true.
// Edges that reach back before the start of the loop need no look: until one binds, the lane that
// it names has lagged by fewer iterations than it reaches back, and still does when it binds.
// Then k repetitions are added at once: times, counts and totals grow by k times what the last one
// added. The result is that of the full simulation, to the picosecond. Which beats are compared
// follows Brent's cycle finding, so periods of several iterations are found.
//
// With a tolerance iterations are skipped, too, where states only drift. Where all classes go at
// one pace within the tolerance (loop_pace.h), and all moved on by as many iterations, more or less
// one, between two beats with the same lanes in their loops, all of them move on by the same number
// of iterations at the pace of the beats, and stand to each other as before. `spread` tells by how
// much the time skipped would differ between the paces of any two classes or windows. That no class
// comes to another pace later is assumed; tests compare with the full simulation.
//
// Where each class keeps its pace within the tolerance, but they differ by up to kMostLead, all
// move on at the fastest of them, and what a class then lacks to its own is added to its next
// kernel. This is how it is where a class gets ahead by so little in each iteration that it does
// not come to wait for a slower one before the loop ends; if it does, it waits as soon as it is
// simulated again.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "sim/class_state.h"
#include "sim/flow_network.h"
#include "sim/loop_pace.h"

namespace zplan::sim {

class SteadyLoop {
 public:
  // Exact with a tolerance of 0.
  SteadyLoop(std::deque<ClassState>& classes, double tolerance);

  // The lanes (class * kLaneCount + lane) of which every move is to be told: of the one whose
  // iterations are the beats, and with a tolerance of one in each class.
  bool watches(std::uint32_t slot) const { return watches_[slot]; }
  // The lane moved from `before` to `at`; whether that is a beat.
  bool moved(std::uint32_t slot, const Instance& before, const Instance& at, SimTime now);

  struct Jump {
    SimTime time;
    std::int64_t ops;
    SimTime spread{0};            // of the paces, over the iterations skipped
    std::vector<SimTime> late{};  // by class: how much longer it took; empty: none did
  };
  // To be called at a beat, with all clocks settled. Moves classes and network when iterations can
  // be skipped; the caller moves its clock and events. `flow_leader` names the network's flows.
  // `path` is moved too, but decides nothing.
  std::optional<Jump> beat(SimTime now, std::int64_t ops, FlowNetwork& network,
                           std::span<const std::uint32_t> flow_leader, CriticalPath& path);
  void next_step();

 private:
  struct Loop {
    BlockIndex block = 0;                        // 0: none
    std::array<std::int64_t, kLaneCount> ops{};  // per iteration, by lane
  };
  // One class at a beat.
  struct Place {
    std::int64_t iteration = -1;  // of the loop, of the first lane in it; -1: none is
    unsigned lanes = 0;           // those in the loop, as bits
    bool launches = false;        // the launching thread is in it, perhaps of a later step
    bool still = true;            // what is not in it has not started
    std::int64_t others = 0;      // ops that lanes which are not in it have completed
    Instance launch{};            // place of the launching thread
    StageClock clock;
    std::array<LaneTimes, kLaneCount> times{};
  };
  struct Beat {
    SimTime now{0};
    std::int64_t ops = 0;
    std::vector<Place> places;
    std::vector<LinkUsage> links;
    std::vector<double> path;
    std::vector<std::int64_t> state;
  };

  static Loop find_loop(const Program& program);
  bool in_block(std::size_t stage, const Instance& at) const;  // of the loop, in any step
  bool in_loop(std::size_t stage, const Instance& at) const;
  bool write_beat(SimTime now, FlowNetwork& network, std::span<const std::uint32_t> flow_leader);
  void write_class(std::size_t stage, SimTime now);
  void write_lane(const ClassState& own, const Place& place, std::size_t lane, SimTime now);
  bool edges_repeat(std::size_t stage) const;
  std::int64_t repetitions() const;
  Jump skip(std::int64_t times, SimTime of_one, FlowNetwork& network);
  std::optional<Jump> skip_at_one_pace(FlowNetwork& network, CriticalPath& path);
  Jump skip_at_own_paces(std::int64_t times, std::int64_t since, FlowNetwork& network);
  std::int64_t iterations_since_earlier() const;
  std::int64_t ops_of_iterations(std::int64_t iterations) const;
  bool moved_together(std::int64_t iterations) const;
  void restart();  // forgets the beats

  std::deque<ClassState>& classes_;
  const double tolerance_;
  std::vector<Loop> loops_;  // by class
  std::optional<std::uint32_t> watched_;
  std::vector<bool> watches_;  // by lane of all classes
  LoopPace pace_;
  Beat earlier_;  // to which one at the same pace is compared
  std::int64_t step_ = 0;
  std::int64_t beats_ = 0, kept_at_ = 0;
  Beat kept_, latest_;
};

}  // namespace zplan::sim
