// What a checkpoint holds and which way it takes, counted by hand. Published figures:
// golden/goodput_test.cpp.
#include "planner/cost/goodput.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"

namespace zplan {
namespace {

// Two stages of two layers. A unit of 100 elements for every two layers, in three tiles; and one of
// 40 elements that both stages have. bf16 parameters with fp32 masters, and a moment that one fp32
// number has for every 10 elements.
Job two_stages() {
  Job job;
  job.mesh = testing_support::mesh_of({.pp = 2});
  job.units.resize(2);
  job.units[0].name = "layer";
  job.units[0].per_layer = true;
  job.units[0].tiles = 3;
  job.units[0].elements = 100;
  job.units[1].name = "embedding";
  job.units[1].elements = 40;
  for (std::int32_t stage = 0; stage < 2; ++stage) {
    RankClass& own = job.classes.emplace_back();
    own.stage = stage;
    own.program.unit_layers = 2;
    own.layers = {{2 * stage, 2}};
    own.program.buffers.resize(2);
    own.program.buffers[0].dtype = DType::kBf16;
    own.program.buffers[1].dtype = DType::kF32;
    for (std::uint32_t unit = 0; unit < 2; ++unit) {
      UnitHome& home = own.homes.emplace_back();
      home.unit = unit;
      home.param.buffer = 0;
      home.master.buffer = 1;
      home.moments.push_back({.buffer = 1, .every = 10});
    }
  }
  return job;
}

TEST(CheckpointBytes, HoldEveryUnitOnceWithAllItsTiles) {
  const CheckpointBytes bytes = checkpoint_bytes(two_stages());
  constexpr double kElements = 2 * 3 * 100 + 40;
  EXPECT_DOUBLE_EQ(bytes.parameters, 2 * kElements);
  EXPECT_DOUBLE_EQ(bytes.master, 4 * kElements);
  EXPECT_DOUBLE_EQ(bytes.moments, 4 * kElements / 10);
}

TEST(CheckpointBytes, ParametersThatAreTheirOwnMasterAreHeldOnce) {
  Job job = two_stages();
  for (RankClass& own : job.classes)
    for (UnitHome& home : own.homes) home.master.buffer = home.param.buffer;
  EXPECT_EQ(checkpoint_bytes(job).master, 0);
}

// small_machine: four GPUs at 10 GB/s behind two uplinks of 10 GB/s, two drives.
TEST(CheckpointPath, TakesTheNarrowerLinksOfAllNodes) {
  Cluster cluster = small_machine();
  cluster.node.nvme.drive_write = {1e9};
  cluster.node.nvme.drive_read = {3e9};
  cluster.node.nvme.efficiency = 0.5;
  const CheckpointPath path = checkpoint_path(cluster, 3, {});
  EXPECT_DOUBLE_EQ(path.to_host.value, 3 * 20e9);
  EXPECT_DOUBLE_EQ(path.storage.value, 3 * 2 * 0.5e9);
  EXPECT_DOUBLE_EQ(storage_read(cluster, 3, {}).value, 3 * 2 * 1.5e9);
  EXPECT_DOUBLE_EQ(storage_read(cluster, 3, BytesPerSecond{7e9}).value, 7e9);
  cluster.node.topology.gpu_pcie = {{4e9}, 0.5};
  EXPECT_DOUBLE_EQ(checkpoint_path(cluster, 3, {}).to_host.value, 3 * 4 * 2e9);
}

// [Daly06 Eq. 37] a write of 2 s and a failure every 100: Young's 20 s, by 1 + 0.1 / 3 + 0.01 / 9,
// less the write; from 2 M on M.
TEST(Goodput, TheIntervalIsDalys) {
  const auto interval = [](double write) {
    return goodput({write}, {.mtbf = {100}, .restart = {5}}).interval.value;
  };
  EXPECT_NEAR(interval(2), 20 * (1 + 0.1 / 3 + 0.01 / 9) - 2, 1e-12);
  const double d = 150;
  EXPECT_NEAR(interval(d), std::sqrt(2 * d * 100) * (1 + std::sqrt(d / 200) / 3 + d / 1800) - d,
              1e-12);
  EXPECT_EQ(interval(200), 100);
}

// [Daly06 Eq. 20] 18 s of work, a write of 2, a failure every 100 s, 5 s to restart.
TEST(Goodput, ThePartsOfTheTimeAddUp) {
  const Goodput found = goodput_at({18}, {2}, {.mtbf = {100}, .restart = {5}});
  const double without = 100 * std::expm1(0.2), all = std::exp(0.05) * without;
  EXPECT_NEAR(found.effective, 18 / all, 1e-12);
  EXPECT_NEAR(found.checkpointing, 2 / all, 1e-12);
  EXPECT_NEAR(found.rework, (without - 20) / all, 1e-12);
  EXPECT_NEAR(found.restarting, (all - without) / all, 1e-12);
}

}  // namespace
}  // namespace zplan
