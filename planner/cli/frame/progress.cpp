#include "planner/cli/frame/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "planner/cli/frame/output.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 1s;          // nothing is shown before
constexpr auto kTerminalPause = 100ms;  // between updates
constexpr auto kLogPause = 5s;
constexpr auto kNoWaiting = 0ms;  // the next line says more

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
  write_notice(fmt::format("{}zplan: {}{}", terminal_ ? "\r" : "", visible(line),
                           terminal_ ? "\033[K" : "\n"),
               kNoWaiting);
  shown_ = true;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (shown_ && terminal_) write_notice("\r\033[K", kNoWaiting);
  shown_ = false;
}

}  // namespace zplan
