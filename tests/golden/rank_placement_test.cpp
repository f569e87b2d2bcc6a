// Four ranks on a DGX-2 whose states are on the CPU: behind one PCIe switch they share its uplink
// of 12 GB/s, which is what one GPU alone reads at [Rajbhandari21 Fig.2b]; spread out each has one.
#include <gtest/gtest.h>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/seating.h"
#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/plan/plan.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

Plan offloaded() {
  Plan plan;
  plan.model = "gpt2-1.5b";
  plan.parallel.dp = 4;
  plan.zero_stage = 3;
  plan.placement = {Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kGpu};
  plan.recompute = {{Recompute::kFull}};
  plan.kernel_set = "cuda.sm70.fp16.unfused";
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = true;
  plan.batch = {.global_batch = 4, .micro_batch = 1, .sequence = 1024};
  return plan;
}

double seconds(const Plan& plan, const Cluster& cluster) {
  Job job = lower(plan, load_model(plan.model));
  place(job, {.slack = plan.slack});
  return sim::simulate(job, cluster).period.value;
}

TEST(RankPlacement, RanksBehindOneSwitchShareItsUplink) {
  const Cluster dgx2 = load_cluster("dgx2");
  Plan plan = offloaded();
  const double together = seconds(plan, dgx2);
  plan.gpus = {0, 1, 2, 3};
  EXPECT_EQ(seconds(plan, dgx2), together) << "is the usual order";
  plan.gpus = spread_devices(dgx2.node.topology, 4);
  const double apart = seconds(plan, dgx2);
  EXPECT_GT(together, 1.3 * apart);
  plan.parallel.dp = 2;
  plan.batch.global_batch = 2;
  plan.gpus = {0, 1};
  const double pair = seconds(plan, dgx2);
  plan.gpus = {0, 8};
  EXPECT_GT(pair, seconds(plan, dgx2)) << "two share one, too";
}

TEST(RankPlacement, IsNoMatterWhereNothingLeavesTheGpus) {
  const Cluster dgx2 = load_cluster("dgx2");
  Plan plan = offloaded();
  plan.placement = {};
  const double together = seconds(plan, dgx2);
  plan.gpus = {0, 4, 8, 12};
  EXPECT_NEAR(seconds(plan, dgx2), together, 1e-3 * together) << "but for the tokens";
}

}  // namespace
}  // namespace zplan
