#include "planner/search/stack_memory_use.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hwprofiles/memory_quantity.h"
#include "hwprofiles/stack.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

using enum MemoryQuantity;

class StackMemoryUseOf : public testing::Test {
 protected:
  void SetUp() override {
    plan_.model = "gpt2-124m";
    plan_.kernel_set = "cuda.sm90.bf16";
    plan_.precision = default_recipe(plan_.kernel_set);
    plan_.batch = {.global_batch = 8, .micro_batch = 2, .sequence = 1024};
  }
  Job job() const {
    Job job = lower(plan_, load_model("gpt2-124m"));
    place(job, {.slack = plan_.slack});
    return job;
  }
  StackMemoryUse use() const { return stack_memory_use(job(), cluster_); }
  void give(MemoryQuantity q, double value, double uncertainty = 0) {
    cluster_.memory.given = true;
    cluster_.memory[q].from = {{0, value}};
    cluster_.memory[q].uncertainty = uncertainty;
  }
  Bytes slab() const { return job().classes[0].placement.slab[0]; }

  Plan plan_;
  Cluster cluster_ = load_cluster("dgx-h100");
};

TEST_F(StackMemoryUseOf, OwnSoftwareIsTheSlabAndTheReserve) {
  const StackMemoryUse own = use();
  const DeviceProfile& device = cluster_.node.device;
  EXPECT_EQ(own.allocated.central, slab() + device.reserve_workspace);
  EXPECT_EQ(own.reserved.central, own.allocated.central) << "one slab does not fragment";
  EXPECT_EQ(own.device.central, slab() + device.reserve());
  EXPECT_GT(own.device.bound, own.device.central);
  EXPECT_LE(own.device.bound, slab() + device.reserve() + reserve_margin(device));
  EXPECT_TRUE(own.replay.has_value()) << "reported all the same";
}

TEST_F(StackMemoryUseOf, WhatWasMeasuredOfTheDeviceIsHeldBesideTheAllocator) {
  for (const bool given : {false, true}) {
    if (given) give(kLibraries, 100e6, 0.1);
    const StackMemoryUse before = use();
    const Bytes offset{1LL << 30};
    cluster_.memory.measured = {.offset = offset, .predicted = before.device.central, .device = {}};
    const StackMemoryUse after = use();
    EXPECT_EQ(after.device.central, before.device.central + offset);
    EXPECT_EQ(after.device.bound, before.device.bound + offset) << "of the plan that was measured";
    EXPECT_EQ(after.shown.central, before.shown.central + offset);
    EXPECT_EQ(after.allocated.central, before.allocated.central);
    EXPECT_EQ(after.reserved.bound, before.reserved.bound);
    cluster_.memory.measured.reset();
  }
}

TEST_F(StackMemoryUseOf, WhatWasMeasuredOfTheAllocatorIsHeldByIt) {
  const StackMemoryUse before = use();
  const Bytes offset{-(1LL << 28)};
  cluster_.memory.measured = {.offset = offset,
                              .predicted = before.device.central,
                              .reading = MemoryReading::kAllocated,
                              .device = {}};
  const StackMemoryUse after = use();
  EXPECT_EQ(after.allocated.central, before.allocated.central + offset);
  EXPECT_EQ(after.reserved.central, before.reserved.central + offset);
  EXPECT_EQ(after.device.central, before.device.central + offset);
  EXPECT_EQ(after.shown.central, before.shown.central + offset);
}

// [derived] Twice as much as the measured plan holds: one standard deviation is the offset.
TEST_F(StackMemoryUseOf, AnOffsetIsLessSureTheFurtherAPlanIsFromTheMeasuredOne) {
  const StackMemoryUse before = use();
  const Bytes offset{1LL << 30};
  const auto sd = [](const MemoryEstimate& estimate) {
    return static_cast<double>((estimate.bound - estimate.central).value) / 1.645;
  };
  cluster_.memory.measured = {
      .offset = offset, .predicted = {before.device.central.value / 2}, .device = {}};
  const double added = std::sqrt(std::pow(sd(use().device), 2) - std::pow(sd(before.device), 2));
  EXPECT_NEAR(added, static_cast<double>(offset.value), 1e-3 * static_cast<double>(offset.value));
}

TEST_F(StackMemoryUseOf, WhatWasMeasuredCountsInTheVerdict) {
  const auto reserve = [&] { return memory_use(job(), cluster_)[0].reserve; };
  const Bytes before = reserve(), offset{1LL << 30};
  cluster_.memory.measured = {.offset = offset, .predicted = use().device.central, .device = {}};
  EXPECT_EQ(reserve(), before + offset);
  give(kLibraries, 0);
  EXPECT_EQ(reserve(), before) << "its own memory is held against that";
  cluster_.memory.measured->offset = {-offset.value};
  EXPECT_EQ(reserve(), before - offset);
}

TEST_F(StackMemoryUseOf, AStacksQuantitiesAddUp) {
  give(kLibraries, 0);
  const StackMemoryUse none = use();
  EXPECT_LT(none.allocated.central, slab()) << "no scratch of ours";
  give(kLibraries, 100e6);
  EXPECT_NEAR(static_cast<double>((use().allocated.central - none.allocated.central).value), 100e6,
              1e6);
  give(kTokenPairs, 1);
  const Bytes pairs = use().replay->live - none.replay->live - Bytes{100'000'000};
  EXPECT_EQ(pairs, Bytes{2 * 1024 * 1024});
}

TEST_F(StackMemoryUseOf, BucketsAreForGradientsThatLeave) {
  const auto with_buckets = [&](std::int32_t stage) {
    plan_.zero_stage = stage;
    plan_.parallel.dp = 2;
    give(kBuckets, 0);
    const Bytes none = use().replay->live;
    give(kBuckets, 2e9);
    return use().replay->live - none;
  };
  EXPECT_EQ(with_buckets(0), Bytes{0});
  EXPECT_EQ(with_buckets(2), Bytes{2'000'000'000});
  plan_.parallel.dp = 1;
  plan_.zero_stage = 2;
  plan_.placement = {.grads = Tier::kCpu, .optimizer = Tier::kCpu};
  give(kBuckets, 0);
  const Bytes none = use().replay->live;
  give(kBuckets, 2e9);
  EXPECT_EQ(use().replay->live - none, Bytes{2'000'000'000});
}

TEST_F(StackMemoryUseOf, UpdatesOfWholeAndOfCutStatesDiffer) {
  plan_.parallel.dp = 2;
  const auto live = [&](std::int32_t stage, double whole, double shard) {
    plan_.zero_stage = stage;
    give(kUpdateWhole, whole);
    give(kUpdateShard, shard);
    return use().replay->live;
  };
  EXPECT_GT(live(0, 60, 0), live(0, 0, 0));
  EXPECT_EQ(live(0, 0, 60), live(0, 0, 0));
  EXPECT_GT(live(1, 0, 60), live(1, 0, 0));
  EXPECT_EQ(live(1, 60, 0), live(1, 0, 0));
}

// Parameters in 16 bits have buckets of gradients that are as large.
TEST_F(StackMemoryUseOf, AReducersBucketsAreOfWholeGradientsThatRanksSum) {
  const auto buckets = [&](std::int32_t stage, std::int32_t ranks) {
    plan_.zero_stage = stage;
    plan_.parallel.dp = ranks;
    give(kReducer, 0);
    const Bytes none = use().replay->live;
    give(kReducer, 2);
    return use().replay->live - none;
  };
  EXPECT_EQ(buckets(0, 2), Bytes{2 * updated_parameters(job().classes[0])});
  EXPECT_EQ(buckets(0, 1), Bytes{0});
  EXPECT_EQ(buckets(1, 2), Bytes{0}) << "reduced to shards";
}

TEST_F(StackMemoryUseOf, AnAllocatorThatGivesBackNeedsWhatItGetsThroughWith) {
  plan_.parallel.tp = 4;
  give(kCollectivesLag, 1);
  cluster_.stack.modules = Modules::kEager;
  const StackMemoryUse in_use = use();
  give(kGivesBack, 1);
  const StackMemoryUse gets_through = use();
  EXPECT_EQ(in_use.device.central,
            in_use.allocated.central + in_use.context + in_use.communicator_bytes);
  EXPECT_EQ(gets_through.device.central,
            gets_through.replay->least + gets_through.context + gets_through.communicator_bytes);
  EXPECT_GT(gets_through.replay->least, gets_through.allocated.central);
  EXPECT_LT(gets_through.replay->least, gets_through.reserved.central);
}

TEST_F(StackMemoryUseOf, CommunicatorsAreCountedAndLieBesideTheAllocator) {
  plan_.parallel = {.dp = 2, .tp = 2, .pp = 2};
  give(kCommunicator, 1e8);
  const StackMemoryUse all = use();
  EXPECT_EQ(all.communicators, 5) << "tensor, data, stages, the world's norm, the embedding";
  EXPECT_EQ(all.communicator_bytes, Bytes{500'000'000});
  EXPECT_EQ(all.device.central - all.allocated.central, all.context + all.communicator_bytes);
  EXPECT_EQ(all.shown.central - all.reserved.central, all.context + all.communicator_bytes);
  plan_.parallel = {};
  EXPECT_EQ(use().communicators, 0);
}

TEST_F(StackMemoryUseOf, BoundsGrowWithEachUncertainty) {
  give(kLibraries, 1e9, 0.1);
  const auto above = [](const MemoryEstimate& e) {
    return static_cast<double>((e.bound - e.central).value);
  };
  EXPECT_NEAR(above(use().allocated), 1.645 * 0.1 * 1e9, 2e6);
  give(kResidualError, 0.02);
  const StackMemoryUse both = use();
  const double live = static_cast<double>(both.replay->live.value);
  EXPECT_NEAR(above(both.allocated), 1.645 * std::hypot(0.1 * 1e9, 0.02 * live), 2e6);
  EXPECT_GT(above(both.device), above(both.allocated)) << "context and communicators, too";
}

TEST_F(StackMemoryUseOf, TheLastStageCountsWhereItsLossNeedsMore) {
  plan_.parallel.pp = 2;
  plan_.batch = {.global_batch = 32, .micro_batch = 8, .sequence = 1024};
  give(kLoss, 0);
  EXPECT_EQ(use().stage, 0) << "two micro-batches in flight";
  give(kLoss, 60);
  EXPECT_EQ(use().stage, 1);
}

TEST_F(StackMemoryUseOf, HeadroomIsLeftFree) {
  const Job placed = job();
  const DeviceProfile& device = cluster_.node.device;
  const auto gpu = [&] { return memory_use(placed, cluster_)[0]; };
  EXPECT_EQ(gpu().headroom, reserve_margin(device)) << "no less than the reserve is uncertain";
  cluster_.headroom = 1e-6;
  EXPECT_EQ(gpu().headroom, reserve_margin(device)) << "however little is asked for";
  cluster_.headroom = 0.05;
  EXPECT_NEAR(static_cast<double>(gpu().headroom.value),
              0.05 * static_cast<double>(device.memory.value), 1);
  EXPECT_EQ(gpu().available(), device.memory - device.reserve() - gpu().headroom);
}

// Both conditions, each by one byte; nothing is asked of a stack that states nothing.
TEST_F(StackMemoryUseOf, TheBoundFitsAndSoDoesTheExpectationBesideTheHeadroom) {
  give(kLibraries, 1e9, 0.5);
  const Job placed = job();
  Bytes& memory = cluster_.node.device.memory;
  const auto refused = [&] { return check_stack(stack_memory_use(placed, cluster_), cluster_); };
  memory = use().device.bound;
  EXPECT_FALSE(refused());
  memory -= Bytes{1};
  ASSERT_TRUE(refused());
  EXPECT_EQ(refused()->needed, use().device.bound);
  EXPECT_EQ(refused()->available, memory);
  cluster_.headroom = 0.5;
  memory = use().device.central * 2;
  EXPECT_FALSE(refused());
  memory -= Bytes{2};
  EXPECT_TRUE(refused());
  cluster_.memory.given = false;
  EXPECT_FALSE(refused());
}

TEST_F(StackMemoryUseOf, SearchRefusesWhatAStackCannotHold) {
  const ModelConfig model = load_model("gpt2-124m");
  give(kLibraries, 1e9);
  EXPECT_FALSE(make_evaluator(model, cluster_).fit(plan_).infeasible);
  give(kLibraries, 84.5e9);
  EXPECT_TRUE(make_evaluator(model, cluster_).fit(plan_).infeasible);
}

TEST_F(StackMemoryUseOf, WhatIsPageLockedLeavesATenthOfTheHost) {
  const HostProfile& host = cluster_.node.host;
  const Job placed = job();
  const auto limit = [&] { return memory_use(placed, cluster_)[1].available(); };
  const double tenths = 0.9 * static_cast<double>(host.memory.value);
  EXPECT_NEAR(static_cast<double>(limit().value), tenths, 1);
  give(kLoss, 4);
  EXPECT_EQ(limit(), host.usable()) << "a stack that does not say so pins nothing";
  give(kPinnedHost, 1);
  EXPECT_NEAR(static_cast<double>(limit().value), tenths, 1);
  cluster_.node.host.reserve = host.memory / 2;
  EXPECT_EQ(limit(), host.usable()) << "the smaller of the two";
  cluster_.memory = {};
  cluster_.node.host.reserve = Bytes{0};
  cluster_.node.device.kernel_set = "cpu.f32";
  EXPECT_EQ(limit(), host.memory);
}

}  // namespace
}  // namespace zplan
