// How threads wait for each other without waiting for ever: every wait of the executor is on a
// Monitor, and stop() ends all of them. A thread that fails calls stop(); the others unwind with
// Stopped. Costs nothing in a step that goes well.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace zplan::exec {

// Thrown out of a wait that will never be satisfied; caught where threads are started.
struct Stopped {};

class Monitor;

class StopSignal {
 public:
  StopSignal() = default;
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void stop();
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

 private:
  friend class Monitor;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::vector<Monitor*> monitors_;
};

// A mutex and a condition that takes part in a StopSignal. Made before the threads start and
// destroyed after they end.
class Monitor {
 public:
  explicit Monitor(StopSignal& signal) : signal_(&signal) {
    const std::lock_guard guard(signal.mutex_);
    signal.monitors_.push_back(this);
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    changed_.wait(lock, [&] { return signal_->stopped() || ready(); });
    if (!ready()) throw Stopped{};
  }
  void notify_all() { changed_.notify_all(); }

 private:
  StopSignal* signal_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

inline void StopSignal::stop() {
  const std::lock_guard guard(mutex_);
  stopped_.store(true, std::memory_order_release);
  for (Monitor* monitor : monitors_) {
    const auto lock = monitor->lock();  // nobody is between its test and its sleep
    monitor->notify_all();
  }
}

}  // namespace zplan::exec
