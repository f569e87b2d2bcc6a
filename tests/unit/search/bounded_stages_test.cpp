#include "planner/search/bounded_stages.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "planner/lower/lower.h"
#include "planner/lower/ranks.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/job_bound.h"
#include "planner/search/search.h"
#include "planner/search/time_floor.h"

namespace zplan {
namespace {

using Stages = std::set<std::int32_t>;

Plan pipeline(const ModelConfig& model, const Cluster& cluster, std::int32_t dp, std::int32_t tp,
              std::int32_t pp) {
  Plan plan;
  plan.kernel_set = cluster.node.device.kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = find_kernel_set(plan.kernel_set).loss_scaling;
  plan.parallel.dp = dp;
  plan.parallel.tp = tp;
  plan.parallel.pp = pp;
  plan.batch = {model.global_batch, 1, model.sequence};
  EXPECT_EQ(illegal(plan, shape_of(model)), std::nullopt);
  return plan;
}

Stages stages_of(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  return bounded_stages(plan, model, in_flight_of_stages(plan), node_fills(mesh_of(plan), cluster));
}

Seconds bound_of(const Plan& plan, const ModelConfig& model, const Cluster& cluster, Job job) {
  TimeFloors floors(model, cluster);
  return bound_of_job(plan, job, cluster, floors, in_flight_of_stages(plan)).bound();
}

class BoundedStagesTest : public testing::Test {
 protected:
  const ModelConfig model_ = load_model("175B");
  const Cluster cluster_ = load_cluster("dgx2x8");  // nodes of 16
};

TEST_F(BoundedStagesTest, AreTheFirstTheLastTheMiddleOneAndTheOneWithMostLayers) {
  Plan plan = pipeline(model_, cluster_, 2, 8, 8);
  EXPECT_EQ(stages_of(plan, model_, cluster_), (Stages{0, 4, 7}));
  plan.stage_layers = {12, 12, 12, 13, 12, 12, 12, 11};
  EXPECT_EQ(stages_of(plan, model_, cluster_), (Stages{0, 3, 4, 7}));
}

TEST_F(BoundedStagesTest, AreThoseOfTheirNodesTogether) {
  Plan plan = pipeline(model_, cluster_, 2, 8, 8);
  plan.order = RankOrder::kPipelineFirst;
  EXPECT_EQ(stages_of(plan, model_, cluster_), (Stages{0, 1, 4, 5, 6, 7}));
}

// The others do the same as one of them, on links of the same nodes.
TEST_F(BoundedStagesTest, HaveTheBoundOfAllStages) {
  for (const RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst})
    for (const std::int32_t zero_stage : {1, 2, 3})
      for (const Tier optimizer : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) {
        Plan plan = pipeline(model_, cluster_, 2, 8, 8);
        plan.order = order;
        plan.zero_stage = zero_stage;
        plan.placement.optimizer = optimizer;
        if (optimizer != Tier::kGpu) plan.placement.grads = Tier::kCpu;
        if (illegal(plan, shape_of(model_))) continue;
        SCOPED_TRACE(to_json(plan));
        const Seconds all = bound_of(plan, model_, cluster_, lower_unordered(plan, model_));
        const Seconds some =
            bound_of(plan, model_, cluster_,
                     lower_unordered(plan, model_, stages_of(plan, model_, cluster_)));
        EXPECT_DOUBLE_EQ(some.value, all.value);
      }
}

TEST_F(BoundedStagesTest, AreLoweredAsInAWholeJob) {
  const Plan plan = pipeline(model_, cluster_, 2, 8, 8);
  const Job all = lower_unordered(plan, model_), some = lower_unordered(plan, model_, {0, 4});
  ASSERT_EQ(some.classes.size(), all.classes.size());
  for (std::size_t stage = 0; stage < all.classes.size(); ++stage) {
    const bool is_there = stage == 0 || stage == 4;
    EXPECT_EQ(some.classes[stage].stage, all.classes[stage].stage);
    EXPECT_EQ(some.classes[stage].program.nodes.size(),
              is_there ? all.classes[stage].program.nodes.size() : 0);
  }
}

}  // namespace
}  // namespace zplan
