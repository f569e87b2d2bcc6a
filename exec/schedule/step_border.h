// Between two steps of a run: where all lanes of this process wait for each other so that something
// can be done with the states as they are after the step. Lanes of other processes stand at the
// same step by themselves: what crosses a border is carried over by memory alone.
#pragma once

#include <cstdint>
#include <functional>

#include "exec/comm/stop_signal.h"

namespace zplan::exec {

// What is done, and where: both asked with steps of this run.
struct BorderAction {
  std::function<bool(std::int64_t step)> is_at{};  // before this step; empty: nowhere
  std::function<void(std::int64_t step)> act{};

  bool at(std::int64_t step) const { return step > 0 && is_at && is_at(step); }
};

class StepBorder {
 public:
  StepBorder(const BorderAction& action, int lanes, StopSignal& signal)
      : action_(&action), lanes_(lanes), monitor_(signal) {}

  bool at(std::int64_t step) const { return action_->at(step); }

  // Called by each lane that has ended all steps before this one; returns when all have and the
  // action is done.
  void cross(std::int64_t step) {
    if (!at(step)) return;
    auto lock = monitor_.lock();
    if (++arrived_ < lanes_) return monitor_.wait(lock, [&] { return crossed_ >= step; });
    lock.unlock();  // whoever stops the others does not wait for it
    action_->act(step);
    lock.lock();
    arrived_ = 0;
    crossed_ = step;
    monitor_.notify_all();
  }

 private:
  const BorderAction* action_;
  int lanes_;
  int arrived_ = 0;
  std::int64_t crossed_ = 0;
  Monitor monitor_;
};

}  // namespace zplan::exec
