// A reusable barrier that can be stopped and says when the last member came.
#pragma once

#include <chrono>

#include "exec/comm/stop_signal.h"

namespace zplan::exec {

using TimePoint = std::chrono::steady_clock::time_point;

class Barrier {
 public:
  Barrier(int size, StopSignal& signal) : size_(size), monitor_(signal) {}

  // Returns when all members have called it.
  TimePoint arrive_and_wait() {
    auto lock = monitor_.lock();
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++generation_;
      completed_ = std::chrono::steady_clock::now();
      monitor_.notify_all();
    } else {
      monitor_.wait(lock, [this, mine = generation_] { return generation_ != mine; });
    }
    return completed_;
  }

 private:
  int size_;
  int arrived_ = 0;
  std::int64_t generation_ = 0;
  TimePoint completed_;
  Monitor monitor_;
};

}  // namespace zplan::exec
