#include "planner/cost/cost_change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/measured_cores.h"
#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

constexpr std::int64_t kMega = 1'000'000;

// A product, a copy and a reduction of 2 ranks.
Job job() {
  ClassBuilder program;
  program.matmul(1000, 1000, 1000);
  program.copy(Tier::kCpu, Tier::kGpu, kMega);
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, kMega, {},
                     Lane::kCommReduce);
  return make_job(program, 2);
}

bool alike_after(const std::function<void(Cluster&)>& change) {
  const Job made = job();
  const Cluster before = small_machine();
  Cluster after = before;
  change(after);
  return costs_alike(CostModel(made, before), CostModel(made, after));
}

TEST(CostChange, CostsAreAlikeWhereNothingThatTheyRestOnHasChanged) {
  EXPECT_TRUE(alike_after([](Cluster&) {}));
  EXPECT_TRUE(alike_after([](Cluster& c) { c.node.topology.nvme_read = {{9e9}, 1}; }));
  EXPECT_TRUE(alike_after([](Cluster& c) { c.stack.drives = 3; }));
}

TEST(CostChange, CostsDifferInEachThingThatASimulationReads) {
  EXPECT_FALSE(alike_after([](Cluster& c) { c.node.device.gemm_efficiency = 0.4; }));
  EXPECT_FALSE(alike_after([](Cluster& c) { c.node.device.launch_overhead = {1e-6}; }));
  EXPECT_FALSE(alike_after([](Cluster& c) { c.node.device.launch_queue_depth = 2; }));
  EXPECT_FALSE(alike_after([](Cluster& c) { c.stack.overlap_slowdown = 0.5; }));
  EXPECT_FALSE(alike_after([](Cluster& c) { c.node.host.memory_bandwidth = {81e9}; }))
      << "a link that no operation is limited by alone";
}

TEST(CostChange, CostsDifferInTheTimeToWake) {
  const Job made = job();
  CoreProfile cores = measured_cores();
  const Cluster before = machine_of_cores(cores);
  cores.wake = {5e-6};
  const Cluster after = machine_of_cores(cores);
  EXPECT_FALSE(costs_alike(CostModel(made, before), CostModel(made, after)));
}

// Of a constant that a time is in proportion to the elasticity is 1, of one that divides it -1; the
// host's time and the device's each have their own.
TEST(CostChange, ElasticitiesAreThoseOfTheModelItself) {
  constexpr double kFactor = 1.01;
  const Job made = job();
  const Cluster before = small_machine();
  Cluster slow = before, launches = before, quick = before;
  slow.stack.gemm = kFactor;
  launches.node.device.launch_overhead = {1e-6};
  quick.node.topology.gpu_pcie = quick.node.topology.pcie_uplink = {{10e9 * kFactor}, 1};
  Cluster base = before;
  base.node.device.launch_overhead = {1e-6 / kFactor};
  slow.node.device.launch_overhead = quick.node.device.launch_overhead =
      base.node.device.launch_overhead;
  CostModel model(made, base);
  const CostModel of_gemm(made, slow), of_launches(made, launches), of_links(made, quick);
  constexpr Constant kGemm = 0, kLaunches = 1, kLinks = 2;
  const CostChange changes[] = {
      {&of_gemm, kFactor, kGemm}, {&of_launches, kFactor, kLaunches}, {&of_links, kFactor, kLinks}};
  rest_on(model, changes);
  const OpCost &product = model.costs(0)[0], &copy = model.costs(0)[1];
  ASSERT_EQ(product.rests.rows().size(), 1u);
  EXPECT_EQ(product.rests.rows()[0].constant, kGemm);
  EXPECT_NEAR(product.rests.rows()[0].elasticity, 1, 1e-3);
  ASSERT_EQ(product.launch_rests.rows().size(), 1u);
  EXPECT_EQ(product.launch_rests.rows()[0].constant, kLaunches);
  EXPECT_NEAR(product.launch_rests.rows()[0].elasticity, 1, 1e-3);
  ASSERT_EQ(copy.rests.rows().size(), 1u);
  EXPECT_EQ(copy.rests.rows()[0].constant, kLinks);
  EXPECT_NEAR(copy.rests.rows()[0].elasticity, -1, 1e-3);
}

}  // namespace
}  // namespace zplan
