#include "exec/measure/timing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace zplan::exec {
namespace {

constexpr Effort kOnce{0, 1};

// Lanes are threads; what they do is the test's.
class NoQueues final : public Backend {
 public:
  void prepare_thread() override { ++prepared; }
  void run_kernel(const KernelCall&) override {}
  void copy(Lane, const Operand&, const Operand&) override {}

  std::atomic<int> prepared{0};
};

TEST(Timing, EachIsAtLeastAsLongAsItTakes) {
  NoQueues backend;
  const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  EXPECT_GE(seconds_each(backend, nap, kOnce), 2e-3);
  EXPECT_GE(host_seconds(backend, nap, 3, kOnce), 2e-3);
}

TEST(Timing, ABatchIsAsLongAsAsked) {
  NoQueues backend;
  int calls = 0;
  const auto nap = [&calls] {
    ++calls;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  };
  seconds_each(backend, nap, {0.2, 3});
  EXPECT_GT(calls, 2 + 3);               // more than one in a batch
  EXPECT_LE(calls, 2 + 3 * 0.2 / 1e-4);  // none longer than asked
}

TEST(Timing, LanesWithoutQueuesRunAtTheSameTime) {
  NoQueues backend;
  std::atomic<bool> other_started{false};
  // Returns only when the other lane has started.
  const auto wait = [&] {
    while (!other_started) std::this_thread::yield();
  };
  seconds_together(backend, {{wait, 1}, {[&] { other_started = true; }, 1}});
  EXPECT_EQ(backend.prepared, 1);  // the thread of the second lane
}

}  // namespace
}  // namespace zplan::exec
