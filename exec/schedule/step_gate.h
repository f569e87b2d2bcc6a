// Decides how many steps a run has. All lanes of all ranks must run the same number, although they
// enter a step at different times: an interruption ends the run after the newest step that any lane
// has entered. Where the ranks are processes these agree on each step before its first lane enters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace zplan::exec {

class StepGate {
 public:
  // Whether all processes may begin the step, asked in order; they hear of this one's interruption.
  using Agreement = std::function<bool(std::int64_t step, bool interrupted)>;

  StepGate(std::int64_t steps, std::function<bool()> interrupted, Agreement agreement = nullptr)
      : planned_(steps),
        limit_(steps),
        interrupted_(std::move(interrupted)),
        agreement_(std::move(agreement)) {}

  // Whether a lane may begin this step.
  bool enter(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    const bool interrupted = limit_ == planned_ && interrupted_ && interrupted_();
    if (agreement_) {
      const bool is_new = step >= entered_ && step < limit_;
      if (is_new && !agreement_(step, interrupted)) limit_ = step;
    } else if (interrupted) {
      limit_ = std::min(limit_, entered_);
    }
    if (step >= limit_) return false;
    entered_ = std::max(entered_, step + 1);
    return true;
  }

  // Steps that are run by all lanes. Final once a lane was refused.
  std::int64_t limit() const { return limit_; }
  bool was_interrupted() const { return limit_ < planned_; }

 private:
  std::mutex mutex_;
  std::int64_t planned_, limit_;
  std::int64_t entered_ = 0;  // steps that some lane has begun
  std::function<bool()> interrupted_;
  Agreement agreement_;
};

}  // namespace zplan::exec
