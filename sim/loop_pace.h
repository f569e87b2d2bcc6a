// LoopPace: whether all classes go through their loops over micro-batches at one pace, or each at
// its own.
//
// Of each class that takes part: the times at which it came to its last iterations. Its pace is the
// time of kWindow iterations. It is known when the last two such times differ by a given share at
// the most. A class that works off what has queued up before it, or lets something queue up behind
// it, may keep a pace that differs a little from that of the others for as long as the loop lasts.
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

  // The shorter and the longer of the last two windows of a class.
  struct Range {
    SimTime least{0}, most{0};
    SimTime spread() const { return most - least; }
    bool within(double share) const {
      return static_cast<double>(spread().value) <= share * static_cast<double>(least.value);
    }
  };
  Range range(std::size_t stage) const;
  // Of all classes together; nothing before all have passed two windows.
  std::optional<Range> range() const;
  SimTime pace(std::size_t stage) const { return last_window(stage); }
  // Whether each class has kept its pace within the share, but for a few that slow down to that of
  // the slowest, which some class has kept.
  bool all_keep_pace(double share) const;

 private:
  SimTime last_window(std::size_t stage) const {
    return passed_[stage].before(0) - passed_[stage].before(kWindow);
  }
  SimTime first_window(std::size_t stage) const {
    return passed_[stage].before(kWindow) - passed_[stage].before(2 * kWindow);
  }
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
