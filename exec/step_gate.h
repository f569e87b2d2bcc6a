// Decides how many steps a run has. All lanes of all ranks must run the same number, although they
// enter a step at different times: an interruption ends the run after the newest step that any lane
// has entered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace zplan::exec {

class StepGate {
 public:
  StepGate(std::int64_t steps, std::function<bool()> interrupted)
      : planned_(steps), limit_(steps), interrupted_(std::move(interrupted)) {}

  // Whether a lane may begin this step.
  bool enter(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    if (limit_ == planned_ && interrupted_ && interrupted_()) limit_ = std::min(limit_, entered_);
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
};

}  // namespace zplan::exec
