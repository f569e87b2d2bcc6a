// How many instances the lanes of a rank have completed, over all steps: what edges ask for. A
// count lies in a flag (queues.h) where the lane, or those that wait for it, are queues; a host
// lane that is waited for by threads wakes them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "exec/comm/stop_signal.h"
#include "exec/schedule/pauses.h"
#include "exec/schedule/queues.h"

namespace zplan::exec {

class Progress {
 public:
  // `is_queue`: the flag is written by a queue.
  Progress(StopSignal& signal, Flag& flag, bool is_queue)
      : signal_(&signal), flag_(&flag), is_queue_(is_queue), monitor_(signal) {}

  Flag& flag() { return *flag_; }

  void wait_for(std::int64_t count) {
    if (completed() >= count) return;
    if (is_queue_) return poll(count);
    auto lock = monitor_.lock();
    monitor_.wait(lock, [&] {
      if (completed() >= count) return true;
      awaited_ = std::min(awaited_, count);
      return false;
    });
  }
  // Of a lane that is a thread. Most instances are not the one that a thread waits for.
  void advance() {
    auto lock = monitor_.lock();
    flag_->value.fetch_add(1, std::memory_order_release);
    if (completed() < awaited_) return;
    awaited_ = kNone;  // who waits for more says so again
    lock.unlock();     // it wakes to a free mutex
    monitor_.notify_all();
  }

 private:
  std::int64_t completed() const {
    return static_cast<std::int64_t>(flag_->value.load(std::memory_order_acquire));
  }
  // A device cannot wake a thread.
  void poll(std::int64_t count) {
    Pauses pauses(std::chrono::microseconds(20));  // [assumed] little beside a copy of a layer
    while (completed() < count) {
      if (signal_->stopped()) throw Stopped{};
      pauses.sleep();
    }
  }

  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  StopSignal* signal_;
  Flag* flag_;
  bool is_queue_;
  Monitor monitor_;
  std::int64_t awaited_ = kNone;  // the least count that a thread waits for
};

}  // namespace zplan::exec
