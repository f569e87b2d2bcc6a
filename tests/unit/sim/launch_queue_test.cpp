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
    for (const Node& node : program_.nodes)
      costs_.push_back({.launch = SimTime{node.kind == OpKind::kMark ? 0 : 10}});
  }

  Program program_;
  std::vector<OpCost> costs_;
};

TEST_F(LaunchQueueTest, LaunchesInProgramOrderAndMarksForNothing) {
  const ProgramIndex index(program_);
  const LaunchQueue launches(index, costs_, 8, 2);
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 0), SimTime{10});
  EXPECT_EQ(launches.launched_at(Lane::kH2d, 0), SimTime{10});
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 1), SimTime{20});
  EXPECT_EQ(launches.launched_at(Lane::kCommReduce, 0), SimTime{30});
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 2), SimTime{40}) << "the next step";
  EXPECT_EQ(launches.launched_at(Lane::kCpu, 5), SimTime{0}) << "needs no launch";
}

TEST_F(LaunchQueueTest, StopsAtAFullLaneUntilItsOldestOpCompletes) {
  const ProgramIndex index(program_);
  LaunchQueue launches(index, costs_, 1, 2);
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 1), std::nullopt);
  EXPECT_EQ(launches.launched_at(Lane::kCommReduce, 0), std::nullopt);
  EXPECT_EQ(launches.waits_for(), Lane::kCompute);
  EXPECT_FALSE(launches.completed(Lane::kH2d, SimTime{12})) << "it waits for another lane";
  EXPECT_TRUE(launches.completed(Lane::kCompute, SimTime{50}));
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 1), SimTime{60});
  EXPECT_EQ(launches.launched_at(Lane::kCommReduce, 0), SimTime{70});
}

TEST_F(LaunchQueueTest, LaunchesNothingBeyondTheLastStep) {
  const ProgramIndex index(program_);
  const LaunchQueue launches(index, costs_, 8, 2);
  EXPECT_TRUE(launches.launched_at(Lane::kCompute, 3).has_value());
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 4), std::nullopt);
}

TEST_F(LaunchQueueTest, WaitsForTheDeviceWhileASingleOpIsOutstanding) {
  const ProgramIndex index(program_);
  costs_[2].host_waits = HostWait::kDevice;  // only the first kernel has been launched
  LaunchQueue launches(index, costs_, 8, 1);
  EXPECT_EQ(launches.launched_at(Lane::kH2d, 0), std::nullopt);
  EXPECT_TRUE(launches.completed(Lane::kCompute, SimTime{50}));
  EXPECT_EQ(launches.launched_at(Lane::kH2d, 0), SimTime{50});
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 1), SimTime{60});
}

TEST_F(LaunchQueueTest, WaitsForTheDeviceUntilNothingIsOutstanding) {
  const ProgramIndex index(program_);
  costs_[0].host_waits = HostWait::kDevice;  // the first op of each step
  LaunchQueue launches(index, costs_, 8, 2);
  EXPECT_EQ(launches.launched_at(Lane::kCommReduce, 0), SimTime{30});
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 2), std::nullopt) << "of the next step";
  EXPECT_EQ(launches.waits_for(), Lane::kCommReduce) << "the last launch of the step";
  EXPECT_FALSE(launches.completed(Lane::kCompute, SimTime{50}));
  EXPECT_FALSE(launches.completed(Lane::kH2d, SimTime{60}));
  EXPECT_FALSE(launches.completed(Lane::kCompute, SimTime{70}));
  EXPECT_TRUE(launches.completed(Lane::kCommReduce, SimTime{100}));
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 2), SimTime{110});
}

// The reduction of the first step stays outstanding.
TEST_F(LaunchQueueTest, WaitsForTheComputeStreamAlone) {
  const ProgramIndex index(program_);
  costs_[0].host_waits = HostWait::kCompute;
  LaunchQueue launches(index, costs_, 8, 2);
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 2), std::nullopt) << "of the next step";
  EXPECT_EQ(launches.waits_for(), Lane::kCompute);
  EXPECT_FALSE(launches.completed(Lane::kCompute, SimTime{50}));
  EXPECT_TRUE(launches.completed(Lane::kCompute, SimTime{70}));
  EXPECT_EQ(launches.launched_at(Lane::kCompute, 2), SimTime{80});
}

}  // namespace
}  // namespace zplan::sim
