// Which steps of a run are done, decided in one place for all its lanes, or processes, which come
// to a step at different times and may be several steps apart. An interruption ends the run after
// the newest step that one of them has entered; or it gives up all steps in which nobody has
// changed a state, and which nobody has ended.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace zplan::exec {

class StepDecisions {
 public:
  explicit StepDecisions(std::int64_t steps = std::numeric_limits<std::int64_t>::max())
      : limit_(steps) {}

  // Whether a step may begin.
  bool enter(std::int64_t step) {
    if (step >= limit_) return false;
    entered_ = std::max(entered_, step + 1);
    return true;
  }
  // Whether states may be changed in a step that was entered, or it may end. From then on it is not
  // given up.
  bool change(std::int64_t step) {
    if (step >= limit_) return false;
    changed_ = std::max(changed_, step + 1);
    return true;
  }
  void interrupt() { limit_ = std::min(limit_, entered_); }
  // The first step that is given up; nothing where all that were entered are ended.
  std::optional<std::int64_t> give_up() {
    interrupt();
    if (changed_ >= limit_) return std::nullopt;
    limit_ = changed_;
    return limit_;
  }

 private:
  std::int64_t limit_;        // steps that are done
  std::int64_t entered_ = 0;  // steps that somebody has begun
  std::int64_t changed_ = 0;  // the same, with a state changed
};

}  // namespace zplan::exec
