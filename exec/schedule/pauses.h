// How long a thread sleeps between two looks at something that nobody can wake it for. The pauses
// grow with the time waited, so that what comes soon is seen soon, what comes late is seen a
// thirtieth later at most, and the many threads that wait leave the cores to those that work.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace zplan::exec {

class Pauses {
 public:
  explicit Pauses(std::chrono::microseconds first) : first_(first) {}

  void sleep() {
    const Duration next = std::clamp<Duration>(slept_ / kParts, first_, kLongest);
    std::this_thread::sleep_for(next);
    slept_ += next;
  }

 private:
  using Duration = std::chrono::nanoseconds;
  static constexpr int kParts = 32;
  static constexpr Duration kLongest = std::chrono::milliseconds(1);  // Ctrl-C is seen within it

  Duration first_;
  Duration slept_{};
};

}  // namespace zplan::exec
