#include "tests/support/fibers.h"

#include <sanitizer/asan_interface.h>
#include <sanitizer/tsan_interface.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/support/sanitized.h"

namespace zplan::testing_support {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

Fibers& Fibers::of_thread() {
  static thread_local Fibers all;
  return all;
}

Fibers::~Fibers() {
  if constexpr (kThreadSanitized)
    for (const Fiber& fiber : all_) __tsan_destroy_fiber(fiber.race_state);
}

bool Fibers::Fiber::can_go_on() const {
  if (!is_at_work.load(std::memory_order_relaxed)) return false;
  const std::atomic<unsigned>* const word = awaited.load(std::memory_order_relaxed);
  return word == nullptr ||
         word->load(std::memory_order_relaxed) != value.load(std::memory_order_relaxed);
}

void Fibers::add() {
  Fiber& fiber = all_.emplace_back();
  fibers_.push_back(&fiber);
  fiber.context = make_fcontext(fiber.stack.get() + kStack, kStack, [](transfer_t from) {
    Fibers& all = of_thread();
    all.arrive(nullptr);
    all.work(from.fctx);
  });
  if constexpr (kThreadSanitized) fiber.race_state = __tsan_create_fiber(0);
}

// Neighbours go as far as they can before others go at all: of what these should have waited for
// nothing is done then. In turns, each the other way round, so that nothing relies on who is first.
void Fibers::run_all(unsigned n) {
  while (fibers_.size() < n) add();
  for (unsigned i = 0; i < n; ++i) fibers_[i]->is_at_work.store(true, std::memory_order_relaxed);
  if constexpr (kThreadSanitized) race_state_ = __tsan_get_current_fiber();
  if constexpr (kThreadSanitized) __tsan_release(&begin_);
  const unsigned groups = (n + kNeighbours - 1) / kNeighbours;
  bool upwards = false;
  const auto advance_all = [&] {
    bool moves = false;
    for (unsigned i = 0; i < groups; ++i) {
      const unsigned begin = (upwards ? i : groups - 1 - i) * kNeighbours;
      const unsigned end = std::min(begin + kNeighbours, n);
      for (bool up = upwards; advance(begin, end, up); up = !up) moves = true;
    }
    upwards = !upwards;
    return moves;
  };
  while (advance_all()) {
  }
  for (unsigned i = 0; i < n; ++i) {
    if (!fibers_[i]->is_at_work.load(std::memory_order_relaxed)) continue;
    std::fputs("fibers wait for each other\n", stderr);
    std::abort();
  }
  if constexpr (kThreadSanitized) __tsan_acquire(&end_);
}

bool Fibers::advance(unsigned begin, unsigned end, bool upwards) {
  bool moves = false;
  for (unsigned i = begin; i < end; ++i) {
    const unsigned index = upwards ? i : begin + end - 1 - i;
    if (!fibers_[index]->can_go_on()) continue;
    moves = true;
    enter(index);
  }
  return moves;
}

// To ThreadSanitizer what stands between its switch and the jump is of who is entered.
void Fibers::enter(unsigned index) {
  Fiber& fiber = *fibers_[index];
  void* const to = fiber.context;
  current_.store(index, std::memory_order_relaxed);
  if constexpr (kAddressSanitized)
    __sanitizer_start_switch_fiber(&fake_stack_, fiber.stack.get(), kStack);
  if constexpr (kThreadSanitized)
    __tsan_switch_to_fiber(fiber.race_state, __tsan_switch_to_fiber_no_sync);
  fiber.context = jump_fcontext(to, nullptr).fctx;
  if constexpr (kAddressSanitized) __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
}

// To who runs the fibers.
void Fibers::leave(const std::atomic<unsigned>* awaited, unsigned value) {
  Fiber& own = *fibers_[self()];
  own.value.store(value, std::memory_order_relaxed);
  own.awaited.store(awaited, std::memory_order_relaxed);
  void *const to = own.runner, *const race_state = race_state_;
  if constexpr (kAddressSanitized)
    __sanitizer_start_switch_fiber(&own.fake_stack, stack_, stack_size_);
  if constexpr (kThreadSanitized) {
    if (!own.is_at_work.load(std::memory_order_relaxed)) __tsan_release(&end_);
    __tsan_switch_to_fiber(race_state, __tsan_switch_to_fiber_no_sync);
  }
  own.runner = jump_fcontext(to, nullptr).fctx;
  arrive(own.fake_stack);
}

void Fibers::arrive(void* fake_stack) {
  if constexpr (kAddressSanitized)
    __sanitizer_finish_switch_fiber(fake_stack, &stack_, &stack_size_);
}

// What a fiber does, one run after the other.
void Fibers::work(void* runner) {
  if constexpr (kThreadSanitized) __tsan_acquire(&begin_);
  Fiber& own = *fibers_[self()];
  own.runner = runner;
  while (true) {
    call_(body_, self());
    own.is_at_work.store(false, std::memory_order_relaxed);
    leave(nullptr, 0);
    if constexpr (kThreadSanitized) __tsan_acquire(&begin_);
  }
}

}  // namespace zplan::testing_support
