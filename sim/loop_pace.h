// LoopPace: whether all classes go through their loops over micro-batches at one pace.
//
// Of each class that takes part: the times at which it came to its last iterations. Its pace is the
// time of kWindow iterations. All go at one pace when, of the last two such times of every class,
// the longest exceeds the shortest by a given share at the most. A class that works off what has
// queued up before it, or lets something queue up behind it, by more than that, is told apart: how
// long it goes on so depends on what drifts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/core/units.h"

namespace zplan::sim {

class LoopPace {
 public:
  // [assumed] long enough that patterns over a few iterations weigh little.
  static constexpr std::size_t kWindow = 16;

  explicit LoopPace(std::size_t classes) : passed_(classes), taking_part_(classes) {}

  void take_part(std::size_t stage) { taking_part_[stage] = true; }
  bool takes_part(std::size_t stage) const { return taking_part_[stage]; }
  void pass(std::size_t stage, SimTime now) {
    Passed& own = passed_[stage];
    own.times[own.count++ % own.times.size()] = now;
  }
  void restart() { passed_.assign(passed_.size(), {}); }

  // The shortest and the longest time of a window; nothing before all have passed two of them.
  struct Range {
    SimTime least{0}, most{0};
    SimTime spread() const { return most - least; }
    bool within(double share) const {
      return static_cast<double>(spread().value) <= share * static_cast<double>(least.value);
    }
  };
  std::optional<Range> range() const;

 private:
  struct Passed {
    std::size_t count = 0;
    std::array<SimTime, 2 * kWindow + 1> times{};  // a ring

    SimTime before(std::size_t iterations) const {
      return times[(count - 1 - iterations) % times.size()];
    }
  };
  std::vector<Passed> passed_;
  std::vector<bool> taking_part_;
};

}  // namespace zplan::sim
