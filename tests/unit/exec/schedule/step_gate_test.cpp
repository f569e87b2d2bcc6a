#include "exec/schedule/step_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace zplan::exec {
namespace {

TEST(StepGate, LetsEveryLaneRunThePlannedSteps) {
  StepGate gate(2, {});
  for (int lane = 0; lane < 2; ++lane) {
    EXPECT_TRUE(gate.enter(0));
    EXPECT_TRUE(gate.enter(1));
    EXPECT_FALSE(gate.enter(2));
  }
  EXPECT_EQ(gate.limit(), 2);
  EXPECT_FALSE(gate.was_interrupted());
}

TEST(StepGate, AnInterruptionLetsTheOthersFinishTheNewestStep) {
  bool interrupted = false;
  StepGate gate(100, [&] { return interrupted; });
  EXPECT_TRUE(gate.enter(0));  // first lane
  EXPECT_TRUE(gate.enter(1));
  interrupted = true;
  EXPECT_FALSE(gate.enter(2));
  EXPECT_TRUE(gate.enter(0));  // second lane
  EXPECT_TRUE(gate.enter(1));
  EXPECT_FALSE(gate.enter(2));
  EXPECT_EQ(gate.limit(), 2);
  EXPECT_TRUE(gate.was_interrupted());
}

TEST(StepGate, AnInterruptionBeforeTheFirstStepRunsNone) {
  StepGate gate(100, [] { return true; });
  EXPECT_FALSE(gate.enter(0));
  EXPECT_EQ(gate.limit(), 0);
}

TEST(StepGate, AllThreadsRunTheSameNumberOfSteps) {
  std::atomic<int> polls = 0;
  StepGate gate(1'000'000, [&] { return ++polls > 500; });
  std::vector<std::int64_t> steps(6, 0);
  {
    std::vector<std::jthread> threads;
    for (std::int64_t& count : steps) {
      threads.emplace_back([&gate, &count] {
        while (gate.enter(count)) ++count;
      });
    }
  }
  for (std::int64_t count : steps) EXPECT_EQ(count, gate.limit());
}

TEST(StepGate, WhereOthersDecideTheFirstLaneOfAStepAsks) {
  std::vector<std::int64_t> asked;
  bool interrupted = false, told = false;
  StepGate gate(
      100, [&] { return interrupted; },
      [&](std::int64_t step, bool is_interrupted) {
        asked.push_back(step);
        told = told || is_interrupted;
        return step < 2;
      });
  EXPECT_TRUE(gate.enter(0));  // first lane
  EXPECT_TRUE(gate.enter(0));  // second lane
  interrupted = true;
  EXPECT_TRUE(gate.enter(1));  // another process has begun it
  EXPECT_TRUE(told);
  EXPECT_FALSE(gate.enter(2));
  EXPECT_TRUE(gate.enter(1));
  EXPECT_FALSE(gate.enter(2));
  EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(gate.limit(), 2);
  EXPECT_TRUE(gate.was_interrupted());
}

}  // namespace
}  // namespace zplan::exec
