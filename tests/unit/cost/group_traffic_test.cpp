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

TEST(GroupTraffic, LeavesNormsAndLossesOut) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 8);
  const Job job = make_job(program, kRanks);
  EXPECT_TRUE(group_traffic(CostModel(job, small_machine()), 0).empty());
}

}  // namespace
}  // namespace zplan
