// How far a run is within its steps: operations that are done, or queued on a device, over those of
// a step. Tells a listener a few times a second; counts an addition per operation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "exec/comm/barrier.h"

namespace zplan::exec {

class Pulse {
 public:
  // Called with steps of this run, "2.25", one call at a time, from any thread; may be empty.
  using Listener = std::function<void(double steps)>;

  explicit Pulse(Listener listener) : listener_(std::move(listener)) {}

  // Ahead of the first step.
  void begin(std::int64_t operations_per_step) { per_step_ = operations_per_step; }

  void count(TimePoint now) {
    if (!listener_) return;
    const std::int64_t done = done_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::int64_t ticks = now.time_since_epoch().count();
    if (ticks < next_.load(std::memory_order_relaxed)) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    next_.store((now + kPause).time_since_epoch().count(), std::memory_order_relaxed);
    listener_(static_cast<double>(done) / static_cast<double>(per_step_));
  }

 private:
  static constexpr std::chrono::milliseconds kPause{200};

  Listener listener_;
  std::int64_t per_step_ = 1;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<TimePoint::rep> next_ = 0;
  std::mutex mutex_;
};

}  // namespace zplan::exec
