// Fibers: hundreds of threads of execution within one thread, which give way to each other only
// where they say so. To ThreadSanitizer each is a thread of its own, ordered by atomics alone; to
// AddressSanitizer each has its stack. What runs in a fiber must not throw, nor run fibers.
#pragma once

#include <sanitizer/asan_interface.h>
#include <sanitizer/tsan_interface.h>
#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>

#include "tests/support/sanitized.h"

namespace zplan::testing_support {

// Those of one thread. They are kept from one run to the next.
class Fibers {
 public:
  // Runs body(0) .. body(n - 1), each in a fiber, until all have ended. Where all that are left
  // wait for each other, the process ends.
  template <typename Body>
  static void run(unsigned n, const Body& body) {
    Fibers& all = of_thread();
    all.body_ = &body;
    all.call_ = [](const void* what, unsigned index) { (*static_cast<const Body*>(what))(index); };
    all.run_all(n);
  }

  // Called in a fiber: its number.
  static unsigned self() { return of_thread().current_.load(std::memory_order_relaxed); }
  // Called in a fiber: lets the others run.
  static void give_way() { of_thread().leave(); }
  // Called in a fiber: something has happened that others may wait for.
  static void moved() { of_thread().moved_.store(true, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kStack = std::size_t{128} * 1024;  // bytes

  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
    std::atomic<bool> is_at_work{false};
    void* race_state = nullptr;  // ThreadSanitizer's
    void* fake_stack = nullptr;  // AddressSanitizer's
  };

  static Fibers& of_thread() {
    static thread_local Fibers all;
    return all;
  }

  Fibers() = default;
  ~Fibers() {
    if constexpr (kThreadSanitized)
      for (const Fiber& fiber : fibers_) __tsan_destroy_fiber(fiber.race_state);
  }
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  void add() {
    Fiber& fiber = fibers_.emplace_back();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    makecontext(&fiber.context, &Fibers::work, 0);
    if constexpr (kThreadSanitized) fiber.race_state = __tsan_create_fiber(0);
  }

  // In turns, each the other way round, so that nothing relies on who comes first.
  void run_all(unsigned n) {
    while (fibers_.size() < n) add();
    for (unsigned i = 0; i < n; ++i) fibers_[i].is_at_work.store(true, std::memory_order_relaxed);
    if constexpr (kThreadSanitized) race_state_ = __tsan_get_current_fiber();
    if constexpr (kThreadSanitized) __tsan_release(&begin_);
    bool is_left = n > 0;
    for (bool upwards = false; is_left; upwards = !upwards) {
      is_left = false;
      moved_.store(false, std::memory_order_relaxed);
      for (unsigned i = 0; i < n; ++i) is_left |= enter(upwards ? i : n - 1 - i);
      if (is_left && !moved_.load(std::memory_order_relaxed)) {
        std::fputs("fibers wait for each other\n", stderr);
        std::abort();
      }
    }
    if constexpr (kThreadSanitized) __tsan_acquire(&end_);
  }

  // Returns whether the fiber has more to do.
  bool enter(unsigned index) {
    Fiber& fiber = fibers_[index];
    if (!fiber.is_at_work.load(std::memory_order_relaxed)) return false;
    current_.store(index, std::memory_order_relaxed);
    if constexpr (kAddressSanitized)
      __sanitizer_start_switch_fiber(&fake_stack_, fiber.stack.get(), kStack);
    if constexpr (kThreadSanitized)
      __tsan_switch_to_fiber(fiber.race_state, __tsan_switch_to_fiber_no_sync);
    swapcontext(&context_, &fiber.context);
    if constexpr (kAddressSanitized) __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
    return fiber.is_at_work.load(std::memory_order_relaxed);
  }

  // To who runs the fibers.
  void leave() {
    Fiber& own = fibers_[self()];
    void* const to = race_state_;
    if constexpr (kAddressSanitized)
      __sanitizer_start_switch_fiber(&own.fake_stack, stack_, stack_size_);
    if constexpr (kThreadSanitized) {
      if (!own.is_at_work.load(std::memory_order_relaxed)) __tsan_release(&end_);
      __tsan_switch_to_fiber(to, __tsan_switch_to_fiber_no_sync);
    }
    swapcontext(&own.context, &context_);
    arrive(own.fake_stack);
  }

  void arrive(void* fake_stack) {
    if constexpr (kAddressSanitized)
      __sanitizer_finish_switch_fiber(fake_stack, &stack_, &stack_size_);
  }

  // What a fiber does, one run after the other.
  static void work() {
    Fibers& all = of_thread();
    all.arrive(nullptr);
    while (true) {
      if constexpr (kThreadSanitized) __tsan_acquire(&all.begin_);
      all.call_(all.body_, self());
      all.fibers_[self()].is_at_work.store(false, std::memory_order_relaxed);
      moved();
      all.leave();
    }
  }

  const void* body_ = nullptr;
  void (*call_)(const void* body, unsigned index) = nullptr;
  std::deque<Fiber> fibers_;
  std::atomic<unsigned> current_{0};
  std::atomic<bool> moved_{false};
  char begin_ = 0, end_ = 0;  // what orders a run's fibers after who begins it, and before its end
  // Of who runs them.
  ucontext_t context_{};
  void* race_state_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* stack_ = nullptr;
  std::size_t stack_size_ = 0;
};

}  // namespace zplan::testing_support
