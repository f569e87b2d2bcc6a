#include "planner/cli/frame/interrupt.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

namespace zplan {
namespace {

// Ctrl-C, and what batch systems end a job with. A lost terminal ends nothing (output.h).
constexpr std::array kSignals{SIGINT, SIGTERM};

// A signal handler can reach nothing but globals.
std::atomic<bool> g_interrupted{false};
std::atomic<int> g_guards{0};  // that live
static_assert(std::atomic<bool>::is_always_lock_free);

void remember(int /*signal*/) { g_interrupted.store(true); }

void remember_and_say(int signal) {
  constexpr std::string_view kLine =
      "\nzplan: stops soon, with what there is; Ctrl-C again: at once\n";
  remember(signal);
  if (::write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) return;  // nobody to tell
}

void handle(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  if (g_guards.fetch_add(1) > 0) return;
  handle(::isatty(STDERR_FILENO) == 1 ? remember_and_say : remember,
         static_cast<int>(SA_RESETHAND) | SA_RESTART);
}

InterruptGuard::~InterruptGuard() {
  if (g_guards.fetch_sub(1) == 1) handle(SIG_DFL, 0);
}
bool InterruptGuard::interrupted() { return g_interrupted.load(); }

}  // namespace zplan
