#include "planner/cost/group_traffic.h"

#include <gtest/gtest.h>

#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

constexpr std::int64_t kBytes = 4096, kRanks = 4;

// Of one collective of `kBytes` bytes between four ranks.
GroupTraffic traffic_of(CollectiveKind kind) {
  ClassBuilder program;
  program.collective(kind, testing_support::groups::kData, kBytes);
  const Job job = make_job(program, kRanks);
  const std::vector<GroupTraffic> all = group_traffic(CostModel(job, small_machine()), 0);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? GroupTraffic{} : all.front();
}

TEST(GroupTraffic, CountsWhatRingsSend) {
  const GroupTraffic gathered = traffic_of(CollectiveKind::kAllGather),
                     scattered = traffic_of(CollectiveKind::kReduceScatter),
                     reduced = traffic_of(CollectiveKind::kAllReduce);
  const double element = gathered.bytes / gathered.elements();
  EXPECT_EQ(gathered.ranks, kRanks);
  EXPECT_DOUBLE_EQ(gathered.gathered * element, kBytes * 3 / 4.0);
  EXPECT_DOUBLE_EQ(scattered.reduced * element, kBytes * 3 / 4.0);
  EXPECT_DOUBLE_EQ(reduced.gathered * element, kBytes * 3 / 4.0);
  EXPECT_DOUBLE_EQ(reduced.reduced, reduced.gathered);
}

// All but what a rank has for itself; a reduce and what is handed on move all of it.
TEST(GroupTraffic, CountsWhatOtherCollectivesSend) {
  const GroupTraffic exchanged = traffic_of(CollectiveKind::kAllToAll),
                     handed = traffic_of(CollectiveKind::kShift),
                     reduced = traffic_of(CollectiveKind::kReduce),
                     spread = traffic_of(CollectiveKind::kBroadcast);
  EXPECT_DOUBLE_EQ(exchanged.other, kBytes / 4 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(handed.other, kBytes / 4);
  EXPECT_DOUBLE_EQ(reduced.reduced, kBytes / 4);
  EXPECT_DOUBLE_EQ(spread.gathered, kBytes / 4);
  EXPECT_DOUBLE_EQ(exchanged.bytes, kBytes * 3 / 4.0);
}

// From a part of 1 kB to the whole of 4.
TEST(GroupTraffic, TheVolumeOfAGatherIsThatOfItsResult) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, kBytes);
  Job job = make_job(program, kRanks);
  job.classes[0].program.views[0].shape = Shape{kBytes / 4 / kRanks};
  const auto all = group_traffic(CostModel(job, small_machine()), 0);
  EXPECT_DOUBLE_EQ(all.at(0).gathered, kBytes / 4 * 3 / 4.0);
}

// Two groups of two ranks, the second one in a loop of 5: half of the buffer goes once, or for an
// all-reduce twice.
TEST(GroupTraffic, CountsEveryRunAndTheMostLoadedLinkTheBusiestGroupFirst) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, kBytes, {},
                     Lane::kCommReduce);
  program.repeat(5, [&] {
    program.collective(CollectiveKind::kAllGather, testing_support::groups::kTensor, kBytes, {},
                       Lane::kCommTensor);
  });
  const Job job = make_job(program, 2, 2);
  const auto all = group_traffic(CostModel(job, small_machine()), 0);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_DOUBLE_EQ(all[0].bytes, 5 * kBytes / 2.0);
  EXPECT_FALSE(all[0].states);
  EXPECT_EQ(all[0].ops.at(0).runs, 5);
  EXPECT_DOUBLE_EQ(all[1].bytes, 2 * kBytes / 2.0);
  EXPECT_TRUE(all[1].states) << "gradients that are reduced";
  EXPECT_DOUBLE_EQ(all[1].link_bytes, 2 * kBytes / 2.0);
}

// Over two nodes each has a port of 5 GB/s for two ranks: three parts of four leave it for each of
// the two rings of a node.
TEST(GroupTraffic, ALinkCarriesTheRanksBesideIt) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kReplica, kBytes);
  Job job = make_job(program, 8);
  job.mesh = testing_support::mesh_of({.dp = 8, .shards = 4});
  const auto all = group_traffic(CostModel(job, small_machine(2)), 0);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_DOUBLE_EQ(all[0].link_bytes, 2 * kBytes / 2.0) << "of two ranks, half of the buffer each";
}

TEST(GroupTraffic, SixtyFourElementsAreNoNorm) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 4 * 64);
  const Job job = make_job(program, kRanks);
  EXPECT_EQ(group_traffic(CostModel(job, small_machine()), 0).size(), 1u);
}

TEST(GroupTraffic, LeavesNormsAndLossesOut) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 8);
  const Job job = make_job(program, kRanks);
  EXPECT_TRUE(group_traffic(CostModel(job, small_machine()), 0).empty());
}

}  // namespace
}  // namespace zplan
