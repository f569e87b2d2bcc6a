#include "planner/search/simplicity.h"

#include <gtest/gtest.h>

#include <functional>

namespace zplan {
namespace {

Plan plain() {
  Plan plan;
  plan.parallel.dp = 8;
  plan.kernel_set = "cpu.bf16";
  return plan;
}

struct Step {
  std::string_view part;  // that tells the plan from the plain one
  std::function<void(Plan&)> change;
};

// From what weighs most.
const std::vector<Step> kSteps = {
    {"tiers", [](Plan& p) { p.placement.optimizer = Tier::kCpu; }},
    {"ZeRO stage", [](Plan& p) { p.zero_stage = 1; }},
    {"kinds of parallelism", [](Plan& p) { p.parallel.tp = 2; }},
    {"knobs", [](Plan& p) { p.gather = Gather::of_layers(2); }},
};

TEST(Simplicity, TheFirstDifferenceCounts) {
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    Plan worse = plain(), better = plain();
    kSteps[i].change(worse);
    for (std::size_t j = i + 1; j < kSteps.size(); ++j) kSteps[j].change(better);
    EXPECT_LT(simplicity_of(better), simplicity_of(worse)) << kSteps[i].part;
    EXPECT_EQ(first_difference(simplicity_of(better), simplicity_of(worse)), kSteps[i].part);
  }
  EXPECT_EQ(first_difference(simplicity_of(plain()), simplicity_of(plain())), "");
}

TEST(Simplicity, CountsTiersBeforeStatesOffTheGpu) {
  Plan cpu = plain(), nvme = plain();
  cpu.placement = {Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kGpu};
  nvme.placement = {Tier::kGpu, Tier::kCpu, Tier::kNvme, Tier::kGpu};
  EXPECT_LT(simplicity_of(cpu), simplicity_of(nvme));
  Plan less = cpu;
  less.placement.params = Tier::kGpu;
  EXPECT_LT(simplicity_of(less), simplicity_of(cpu));
  EXPECT_EQ(first_difference(simplicity_of(less), simplicity_of(cpu)), "states off the GPU");
  Plan master = plain();
  master.offload.master = true;
  EXPECT_EQ(simplicity_of(master).tiers, 2);
  EXPECT_EQ(simplicity_of(master).states_off, 1);
}

int parallelism(const std::function<void(Plan&)>& change) {
  Plan plan = plain();
  change(plan);
  return simplicity_of(plan).parallelism;
}

TEST(Simplicity, CountsKindsOfParallelismNotRanks) {
  EXPECT_EQ(parallelism([](Plan&) {}), 0);
  EXPECT_EQ(parallelism([](Plan& p) { p.parallel.tp = 2; }), 1);
  EXPECT_EQ(parallelism([](Plan& p) { p.parallel.tp = 8; }), 1);
  EXPECT_EQ(parallelism([](Plan& p) {
              p.parallel.tp = 2;
              p.parallel.sequence_parallel = true;
            }),
            2);
  EXPECT_EQ(parallelism([](Plan& p) { p.parallel.pp = 4; }), 1);
  EXPECT_EQ(parallelism([](Plan& p) { p.parallel.shards = 4; }), 1);
  EXPECT_EQ(parallelism([](Plan& p) { p.parallel.shards = 8; }), 0) << "all replicas: no groups";
  EXPECT_EQ(parallelism([](Plan& p) { p.partition_activations = true; }), 1);
}

int knobs(const std::function<void(Plan&)>& change) {
  Plan plan = plain();
  change(plan);
  return simplicity_of(plan).knobs;
}

TEST(Simplicity, CountsKnobs) {
  EXPECT_EQ(knobs([](Plan& p) { p.slack = 0; }), 0) << "nobody sees it";
  EXPECT_EQ(knobs([](Plan& p) { p.gather = Gather::kLayer; }), 0) << "either is usual";
  EXPECT_EQ(knobs([](Plan& p) { p.recompute = {{Recompute::kFull}}; }), 1);
  EXPECT_EQ(knobs([](Plan& p) { p.recompute = {{Recompute::kSelective}}; }), 0)
      << "none on kernels that never store the scores";
  EXPECT_EQ(knobs([](Plan& p) { p.recompute = {{Recompute::kFull, 2}, {Recompute::kNone}}; }), 2);
  EXPECT_EQ(knobs([](Plan& p) { p.gather = Gather::in_tiles(2); }), 1);
  EXPECT_EQ(knobs([](Plan& p) { p.prefetch = 0; }), 1);
  EXPECT_EQ(knobs([](Plan& p) { p.prefetch = 4; }), 1);
  EXPECT_EQ(knobs([](Plan& p) { p.stage_layers = {3, 1}; }), 1);
}

}  // namespace
}  // namespace zplan
