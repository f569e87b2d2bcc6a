#include "planner/search/homes/homes.h"

#include <gtest/gtest.h>

#include "planner/search/homes/families.h"

namespace zplan {
namespace {

constexpr double kGiB = 0x1p30;

// GPT-2 355M on one RTX 4090 whose memory decides; drives and CPU memory have room.
class HomesTest : public testing::Test {
 protected:
  HomesTest() {
    plan_.model = model_.name;
    plan_.hardware = cluster_.name;
    plan_.kernel_set = cluster_.node.device.kernel_set;
    plan_.precision = default_recipe(plan_.kernel_set);
    plan_.batch = {.global_batch = 8, .micro_batch = 8, .sequence = 1024};
    plan_.recompute = {{Recompute::kFull}};
  }

  void set_memory(double gib) {
    cluster_.node.device.memory = Bytes{static_cast<std::int64_t>(gib * kGiB)};
  }
  std::optional<ChosenHomes> chosen(const HomesAllowed& allowed = {}) const {
    const Evaluator evaluator = make_evaluator(model_, cluster_);
    return choose_fitting_homes(ask_homes(plan_, model_, cluster_), allowed, shape_of(model_),
                                evaluator.fit);
  }

  ModelConfig model_ = load_model("gpt2-355m");
  Cluster cluster_ = load_cluster("rtx4090-12ssd");
  Plan plan_;
};

TEST_F(HomesTest, KeepsAllOnTheGpuWhereThereIsRoom) {
  set_memory(64);
  const auto homes = chosen();
  ASSERT_TRUE(homes);
  EXPECT_EQ(homes->plan.recompute, (std::vector<RecomputeRun>{{}}));
  EXPECT_EQ(homes->plan.placement.activations, Tier::kGpu);
}

TEST_F(HomesTest, FitWhereTheyShouldAndAreFasterThanFullRecomputation) {
  const Evaluator evaluator = make_evaluator(model_, cluster_);
  double before = 0;
  for (const double gib : {18.0, 14.0, 12.0, 10.0}) {
    set_memory(gib);
    const auto homes = chosen();
    ASSERT_TRUE(homes) << gib;
    EXPECT_FALSE(make_evaluator(model_, cluster_).fit(homes->plan).infeasible) << gib;
    const double seconds = evaluator.simulate(homes->plan).value;
    EXPECT_LT(seconds, evaluator.simulate(plan_).value) << gib;
    EXPECT_GE(seconds, before * 0.999) << gib;  // less memory is not faster
    EXPECT_LE(homes->bound, homes->seconds);
    before = seconds;
  }
}

TEST_F(HomesTest, ChooseAmongWhatIsAllowedOnly) {
  set_memory(12);
  const auto recomputed = chosen({.on_cpu = false, .on_nvme = false, .inputs = {Tier::kGpu}});
  ASSERT_TRUE(recomputed);
  for (const RecomputeRun& run : recomputed->plan.recompute)
    EXPECT_TRUE((run.on_cpu | run.on_nvme).empty());
  const auto swapped = chosen({.recomputed = false, .on_nvme = false, .inputs = {Tier::kCpu}});
  ASSERT_TRUE(swapped);
  for (const RecomputeRun& run : swapped->plan.recompute) {
    EXPECT_TRUE(run.operators.empty());
    EXPECT_TRUE(run.on_nvme.empty());
  }
  EXPECT_EQ(swapped->plan.placement.activations, Tier::kCpu);
}

TEST_F(HomesTest, NothingFitsIntoNoMemory) {
  set_memory(4);
  EXPECT_FALSE(chosen());
}

TEST_F(HomesTest, PlansThatCutCheckpointsAreNotAsked) {
  plan_.gather = Gather::in_tiles(2);
  plan_.zero_stage = 3;
  EXPECT_TRUE(ask_homes(plan_, model_, cluster_).stages.empty());
  EXPECT_FALSE(chosen());
}

// What an update beside backward reads is in the way of what comes back for backward.
TEST_F(HomesTest, UpdatesBesideBackwardTakeTimeOfDrives) {
  plan_.zero_stage = 3;
  plan_.placement.optimizer = Tier::kNvme;
  plan_.clip = false;
  const auto reads = [&](bool beside) {
    plan_.overlap.optimizer = beside;
    HomesQuestion question = ask_homes(plan_, model_, cluster_);
    return question.stages.front().base[std::string(name(Lane::kIoRead))].at(1);
  };
  EXPECT_EQ(reads(false), 0);
  EXPECT_GT(reads(true), 0);
}

TEST_F(HomesTest, EachStageOfAPipelineHasItsOwn) {
  plan_.parallel.pp = 4;
  plan_.batch.global_batch = 64;
  set_memory(7);
  const auto homes = chosen({.on_cpu = false, .on_nvme = false, .inputs = {Tier::kGpu}});
  ASSERT_TRUE(homes);
  // The first stage has four micro-batches in flight, the last one.
  EXPECT_NE(homes->plan.run_of(0), homes->plan.run_of(model_.layers - 1));
  EXPECT_EQ(homes->plan.recompute_of(model_.layers - 1), Recompute::kNone);
}

// Every family is chosen, lowered, placed and simulated in the same memory.
TEST_F(HomesTest, TheBestIsNoSlowerThanAnyNamedFamily) {
  for (const double gib : {9.0, 12.0, 16.0}) {
    set_memory(gib);
    const HomesComparison homes = compare_homes(plan_, model_, cluster_);
    ASSERT_EQ(homes.families.size(), 8U);
    const HomesFamily& best = homes.families.back();
    ASSERT_TRUE(best.step) << gib;
    for (const HomesFamily& family : homes.families) {
      if (!family.step) continue;
      EXPECT_LE(*best.step, *family.step) << gib << ' ' << family.name;
      EXPECT_LE(static_cast<double>(family.gpu.value), gib * kGiB);
    }
    EXPECT_GE(homes.seconds_per_gib_less.value_or(0), 0);
    EXPECT_GE(homes.seconds_per_gib_more.value_or(0), 0);
  }
}

}  // namespace
}  // namespace zplan
