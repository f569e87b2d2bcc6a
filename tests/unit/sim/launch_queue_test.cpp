#include "sim/launch_queue.h"

#include <gtest/gtest.h>

#include "tests/unit/sim/job_builder.h"

namespace zplan::sim {
namespace {

class LaunchQueueTest : public ::testing::Test {
 protected:
  LaunchQueueTest() {
    ClassBuilder builder;
    builder.stream(Lane::kCompute, 4);
    builder.accumulate_on_cpu(4);
    builder.mark(Lane::kH2d);
    builder.stream(Lane::kCompute, 4);
    builder.stream(Lane::kCommReduce, 4);
    program_ = builder.finish();
  }

  Program program_;
};

TEST_F(LaunchQueueTest, LaunchesInProgramOrderAndMarksForNothing) {
  const ProgramIndex index(program_);
  const LaunchQueue launches(index, SimTime{10}, 8, 2);
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 0), SimTime{10});
  EXPECT_EQ(launches.launched_at(Lane::kH2d, 0), SimTime{10});
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 1), SimTime{20});
  EXPECT_EQ(launches.launched_at(Lane::kCommReduce, 0), SimTime{30});
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 2), SimTime{40}) << "the next step";
  EXPECT_EQ(launches.launched_at(Lane::kCpu, 5), SimTime{0}) << "needs no launch";
}

TEST_F(LaunchQueueTest, StopsAtAFullLaneUntilItsOldestOpCompletes) {
  const ProgramIndex index(program_);
  LaunchQueue launches(index, SimTime{10}, 1, 2);
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 1), std::nullopt);
  EXPECT_EQ(launches.launched_at(Lane::kCommReduce, 0), std::nullopt);
  EXPECT_FALSE(launches.completed(Lane::kH2d, SimTime{12})) << "it waits for another lane";
  EXPECT_TRUE(launches.completed(Lane::kCompute, SimTime{50}));
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 1), SimTime{60});
  EXPECT_EQ(launches.launched_at(Lane::kCommReduce, 0), SimTime{70});
}

TEST_F(LaunchQueueTest, LaunchesNothingBeyondTheLastStep) {
  const ProgramIndex index(program_);
  const LaunchQueue launches(index, SimTime{10}, 8, 2);
  EXPECT_TRUE(launches.launched_at(Lane::kCompute, 3).has_value());
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 4), std::nullopt);
}

}  // namespace
}  // namespace zplan::sim
