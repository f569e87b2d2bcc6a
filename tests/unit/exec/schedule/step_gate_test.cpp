#include "exec/schedule/step_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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
  StepGate gate(100, {.between_steps = [&] { return interrupted; }});
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
  StepGate gate(100, {.between_steps = [] { return true; }});
  EXPECT_FALSE(gate.enter(0));
  EXPECT_EQ(gate.limit(), 0);
}

TEST(StepGate, AllThreadsRunTheSameNumberOfSteps) {
  std::atomic<int> polls = 0;
  StepGate gate(1'000'000, {.between_steps = [&] { return ++polls > 500; }});
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
  StepGate gate(100, {.between_steps = [&] { return interrupted; }},
                {.enter =
                     [&](std::int64_t step, bool is_interrupted) {
                       asked.push_back(step);
                       told = told || is_interrupted;
                       return step < 2;
                     },
                 .change = [](std::int64_t) { return true; },
                 .give_up = [] {}});
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

// Two lanes, of which the second has just begun step 0 and the first steps 1 and 2.
struct TwoLanes {
  bool gives_up = false;
  int told = 0;
  StepGate gate{10, {.within_step = [this] { return gives_up; }}};

  explicit TwoLanes(bool changes_state) {
    gate.on_vain([this] { ++told; });
    EXPECT_TRUE(gate.enter(0));
    EXPECT_TRUE(gate.enter(0));
    EXPECT_TRUE(gate.goes_on(0, true));
    EXPECT_TRUE(gate.enter(1));
    EXPECT_TRUE(gate.goes_on(1, changes_state));
    EXPECT_TRUE(gate.enter(2));
    gives_up = true;
    gate.poll(TimePoint::max());
  }
};

TEST(StepGate, StepsInWhichNoStateHasChangedAreGivenUp) {
  TwoLanes lanes(false);
  EXPECT_FALSE(lanes.gate.goes_on(1, false));
  EXPECT_FALSE(lanes.gate.goes_on(1, true));
  EXPECT_TRUE(lanes.gate.goes_on(0, true));  // second lane
  EXPECT_EQ(lanes.told, 0);                  // as it is in a step that is ended
  EXPECT_TRUE(lanes.gate.end(0));
  EXPECT_EQ(lanes.told, 1);
  EXPECT_FALSE(lanes.gate.enter(1));
  EXPECT_FALSE(lanes.gate.end(1));
  EXPECT_EQ(lanes.gate.limit(), 1);
  EXPECT_TRUE(lanes.gate.was_interrupted());
  EXPECT_TRUE(lanes.gate.gave_up());
}

TEST(StepGate, AStepInWhichAStateHasChangedIsEnded) {
  TwoLanes lanes(true);
  EXPECT_FALSE(lanes.gate.goes_on(2, false));
  EXPECT_TRUE(lanes.gate.goes_on(1, true));
  EXPECT_TRUE(lanes.gate.goes_on(0, true));  // second lane
  EXPECT_TRUE(lanes.gate.end(0));
  EXPECT_TRUE(lanes.gate.enter(1));
  EXPECT_EQ(lanes.told, 0);
  EXPECT_TRUE(lanes.gate.end(1));
  EXPECT_EQ(lanes.told, 1);
  EXPECT_FALSE(lanes.gate.enter(2));
  EXPECT_EQ(lanes.gate.limit(), 2);
  EXPECT_TRUE(lanes.gate.was_interrupted());
}

TEST(StepGate, AStepThatHasEndedIsNotGivenUp) {
  bool gives_up = false;
  StepGate gate(1, {.within_step = [&] { return gives_up; }});
  EXPECT_TRUE(gate.enter(0));
  EXPECT_TRUE(gate.end(0));  // it validates, or has no states here
  gives_up = true;
  gate.poll(TimePoint::max());
  EXPECT_EQ(gate.limit(), 1);
  EXPECT_FALSE(gate.was_interrupted());
  EXPECT_FALSE(gate.gave_up());
}

TEST(StepGate, WhereOthersDecideTheyAreAskedOnceWhetherStatesMayChange) {
  std::vector<std::int64_t> asked;
  int given_up = 0;
  StepGate gate(10, {.within_step = [] { return true; }},
                {.enter = [](std::int64_t, bool) { return true; },
                 .change =
                     [&](std::int64_t step) {
                       asked.push_back(step);
                       return step == 0;
                     },
                 .give_up = [&] { ++given_up; }});
  int told = 0;
  gate.on_vain([&] { ++told; });
  EXPECT_TRUE(gate.enter(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(gate.goes_on(0, true));
  EXPECT_TRUE(gate.end(0));
  EXPECT_TRUE(gate.enter(1));
  for (int i = 0; i < 2; ++i) gate.poll(TimePoint::max() - std::chrono::hours(1));
  EXPECT_EQ(given_up, 1);
  EXPECT_TRUE(gate.goes_on(1, false));  // they have not answered
  EXPECT_FALSE(gate.goes_on(1, true));
  EXPECT_EQ(asked, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(told, 0);
  gate.give_up(1);
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(gate.goes_on(1, false));
  EXPECT_EQ(gate.limit(), 1);
}

}  // namespace
}  // namespace zplan::exec
