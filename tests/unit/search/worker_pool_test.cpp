#include "planner/search/worker_pool.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace zplan {
namespace {

TEST(WorkerPool, RunsEveryIndexOnce) {
  for (const int threads : {0, 1, 2, 5}) {
    WorkerPool pool(threads);
    for (std::size_t n = 0; n < 60; ++n) {
      std::vector<std::atomic<int>> runs(n);
      pool.for_each(n, [&](std::size_t i) { ++runs[i]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(WorkerPool, ThrowsWhatTheFirstIndexThrew) {
  WorkerPool pool(3);
  std::atomic<int> runs = 0;
  try {
    pool.for_each(20, [&](std::size_t i) {
      ++runs;
      if (i == 7 || i == 13) throw std::runtime_error(std::to_string(i));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "7");
  }
  EXPECT_EQ(runs, 20);
  pool.for_each(5, [&](std::size_t) { ++runs; });
  EXPECT_EQ(runs, 25);
}

}  // namespace
}  // namespace zplan
