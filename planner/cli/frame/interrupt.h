// Ctrl-C as a question instead of a sudden end: while an InterruptGuard lives, the first SIGINT,
// SIGTERM or SIGHUP only sets a flag; the second of its kind ends the program as usual.
#pragma once

namespace zplan {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // From any thread.
  static bool interrupted();
};

}  // namespace zplan
