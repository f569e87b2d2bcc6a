// Ctrl-C as a question instead of a sudden end: while an InterruptGuard lives, the first SIGINT or
// SIGTERM only sets a flag; the second of its kind ends the program as usual.
// Guards may nest: the first one asks, the last one to go lets the program end as usual again.
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
