// Progress on stderr for what takes longer than a second: one line that rewrites itself on a
// terminal, a line every few seconds elsewhere.
#pragma once

#include <chrono>
#include <mutex>
#include <string_view>

namespace zplan {

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From any thread; most calls show nothing.
  void show(std::string_view line);
  // Before other output.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace zplan
