#include "planner/cli/frame/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace zplan {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 1s;          // nothing is shown before
constexpr auto kTerminalPause = 100ms;  // between updates
constexpr auto kLogPause = 5s;

}  // namespace

Progress::Progress()
    : terminal_(::isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + (terminal_ ? Clock::duration(kPatience) : Clock::duration(kLogPause))) {}

Progress::~Progress() { clear(); }

void Progress::show(std::string_view line) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? Clock::duration(kTerminalPause) : Clock::duration(kLogPause));
  // \r: to the start of the line, \033[K: clear what is left of it.
  fmt::print(stderr, "{}zplan: {}{}", terminal_ ? "\r" : "", line, terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (shown_ && terminal_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace zplan
