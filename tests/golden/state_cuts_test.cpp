// ZeRO-Offload's choice of what leaves the GPU [Ren21 sec 3, Table 1], from lowered Jobs: of M
// parameters at least 4 M bytes cross per step unless all states stay, and gradients and optimizer
// states on the host are the only ones that reach 8 times less on the GPU with that. Exact: sizes
// are chosen such that nothing is padded.
//   all on the GPU                        16 M stay, nothing crosses
//   optimizer on the host                  4 M stay (4 times less), 4 M cross
//   optimizer and gradients                2 M stay (8 times less), 4 M cross
// Its third row, gradients alone on the host (14 M stay, 1.14 times less), is no Plan here: they
// would come back for the update, 4 M bytes for an eighth less. Of parameters that leave the paper
// says that more crosses: they come back for each pass.
#include <gtest/gtest.h>

#include "planner/search/state_cuts.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::recompute_all;
using testing_support::round_model;

constexpr double kAll = 16, kTraffic = 4, kSaving = 8;

Plan plan_of(Recompute recompute, Gather gather) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel = {.dp = 4, .tp = 2};
  plan.zero_stage = 1;
  plan.recompute = recompute_all(recompute);
  plan.gather = gather;
  plan.batch = {.global_batch = 24, .micro_batch = 2, .sequence = 128};
  return plan;
}

const StateCut& cut_of(const std::vector<StateCut>& cuts, Tier params, Tier grads, Tier optimizer) {
  for (const StateCut& cut : cuts)
    if (cut.homes.params == params && cut.homes.grads == grads && cut.homes.optimizer == optimizer)
      return cut;
  throw std::logic_error("no such cut");
}

class StateCuts : public testing::TestWithParam<std::tuple<Recompute, Gather>> {
 protected:
  const std::vector<StateCut> cuts_ =
      state_cuts(plan_of(std::get<0>(GetParam()), std::get<1>(GetParam())), round_model(),
                 load_cluster("dgx-a100"));
};

TEST_P(StateCuts, KeepWhatTable1Prints) {
  using enum Tier;
  ASSERT_EQ(cuts_.size(), 8U);
  EXPECT_DOUBLE_EQ(cut_of(cuts_, kGpu, kGpu, kGpu).kept, kAll);
  EXPECT_DOUBLE_EQ(cut_of(cuts_, kGpu, kGpu, kGpu).crosses, 0);
  EXPECT_DOUBLE_EQ(cut_of(cuts_, kGpu, kGpu, kCpu).kept, kAll / 4);
  EXPECT_DOUBLE_EQ(cut_of(cuts_, kGpu, kGpu, kCpu).crosses, kTraffic);
  EXPECT_DOUBLE_EQ(cut_of(cuts_, kGpu, kCpu, kCpu).kept, kAll / kSaving);
  EXPECT_DOUBLE_EQ(cut_of(cuts_, kGpu, kCpu, kCpu).crosses, kTraffic);
  EXPECT_DOUBLE_EQ(cut_of(cuts_, kCpu, kCpu, kCpu).kept, 0);
}

TEST_P(StateCuts, GradientsAndOptimizerAreTheOneWithLeastTrafficThatSavesMost) {
  const StateCut* least = least_traffic(cuts_);
  ASSERT_NE(least, nullptr);
  EXPECT_EQ(least, &cut_of(cuts_, Tier::kGpu, Tier::kCpu, Tier::kCpu));
  for (const StateCut& cut : cuts_) {
    if (!cut.refused.empty() || cut.crosses == 0) continue;
    EXPECT_GE(cut.crosses, kTraffic);
    const bool ties = cut.crosses == kTraffic && cut.kept <= least->kept;
    EXPECT_EQ(ties, &cut == least);
    EXPECT_TRUE(cut.homes.params == Tier::kGpu || cut.crosses > kTraffic);
  }
}

TEST_P(StateCuts, GradientsAloneAreNoPlanAndSaySo) {
  const StateCut& alone = cut_of(cuts_, Tier::kGpu, Tier::kCpu, Tier::kGpu);
  EXPECT_EQ(alone.refused, "gradients on cpu need the optimizer on cpu or nvme");
}

INSTANTIATE_TEST_SUITE_P(Plans, StateCuts,
                         testing::Combine(testing::Values(Recompute::kNone, Recompute::kFull),
                                          testing::Values(Gather::kLayer, Gather::kOperator)));

// With 18 bytes gradients are added up in fp32 and cross in fp32: 4 M down and 2 M up.
TEST(StateCutsOfOtherRecipes, FollowTheirBytes) {
  Plan plan = plan_of(Recompute::kFull, Gather::kLayer);
  plan.precision = *find_recipe("fp32-gradients", plan.kernel_set);
  const std::vector<StateCut> cuts = state_cuts(plan, round_model(), load_cluster("dgx-a100"));
  EXPECT_DOUBLE_EQ(cuts.front().kept, 18);
  const StateCut& offload = cut_of(cuts, Tier::kGpu, Tier::kCpu, Tier::kCpu);
  EXPECT_DOUBLE_EQ(offload.crosses, 6);
  EXPECT_DOUBLE_EQ(offload.kept, 2);
}

}  // namespace
}  // namespace zplan
