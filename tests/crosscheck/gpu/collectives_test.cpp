// exec/measure/node_collectives.h on stand-in GPUs: it does nothing wrong with them, and measures
// all that a profile holds.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/measure/node_collectives.h"
#include "planner/core/error.h"
#include "tests/support/error_text.h"
#include "tests/support/gpu/judged_device.h"
#include "tests/support/gpu/stand_in.h"

namespace zplan::exec {
namespace {

using stand_in::StandIn;

NodeCollectiveOptions small_options() {
  NodeCollectiveOptions options;
  options.sizes = {1 << 10, 1 << 12};
  options.beside = 1 << 12;
  options.tokens = options.inputs = options.outputs = 32;
  options.effort = {0.002, 3};
  options.deadline = std::chrono::seconds(20);
  return options;
}

NodeCollectives measure_on(int gpus, const NodeCollectiveOptions& options) {
  std::vector<std::shared_ptr<Device>> owners;
  std::vector<Device*> devices;
  for (int i = 0; i < gpus; ++i) {
    owners.push_back(stand_in::make_judged_device(i));
    devices.push_back(owners.back().get());
  }
  return measure_node_collectives(devices, find_kernel_set("cuda.sm90.bf16"), options);
}

TEST(CollectivesOfANode, AreMeasuredInGroupsOfEverySize) {
  StandIn gpu({.devices = 3});
  int told = 0;
  NodeCollectiveOptions options = small_options();
  options.measured = [&told](const std::string&) { ++told; };
  const NodeCollectives found = measure_on(3, options);

  std::set<std::pair<CollectiveKind, int>> groups;
  for (const NodeCollectives::Curve& curve : found.curves) {
    EXPECT_TRUE(groups.insert({curve.kind, curve.ranks}).second);
    ASSERT_EQ(curve.times.size(), 2u);
    for (const NodeCollectives::Time& time : curve.times) {
      EXPECT_EQ(time.bytes % (2 * curve.ranks), 0);
      EXPECT_TRUE(std::isfinite(time.seconds) && time.seconds > 0);
    }
    EXPECT_EQ(curve.times[0].bytes, curve.ranks == 2 ? 1024 : 1020);
    EXPECT_EQ(curve.times[1].bytes, curve.ranks == 2 ? 4096 : 4092);
  }
  EXPECT_EQ(groups.size(), 12u);
  EXPECT_EQ(told, 25);
  EXPECT_EQ(found.neighbours.bytes, 1020);
  EXPECT_GT(found.neighbours.seconds, 0);
  ASSERT_EQ(found.contention.size(), 4u);
  for (const Measurement& line : found.contention) EXPECT_GT(line.seconds, 0) << line.what;
  EXPECT_THAT(found.contention[0].what,
              testing::StartsWith("product, 32 x 32 x 32 beside all_reduce of 4092 bytes among 3"));
  EXPECT_EQ(gpu.close(), std::vector<std::string>{});
}

// What two ranks move in one call of b bytes: operations as NCCL has them, bytes as it counts them.
struct Moved {
  std::int64_t operations, bytes;
  friend bool operator==(const Moved&, const Moved&) = default;
};
Moved moved(CollectiveKind kind, std::int64_t b) {
  switch (kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return {1, b / 2};
    case CollectiveKind::kAllToAll:
      return {4, 2 * b};
    case CollectiveKind::kShift:
      return {2, 2 * b};
    default:
      return {1, b};
  }
}

// Each time is that of calls of the size which it is said to be of: here of three.
TEST(CollectivesOfANode, AreOfTheSizesThatAreSaid) {
  StandIn gpu({.devices = 2});
  std::vector<Moved> found;
  Moved before{};
  NodeCollectiveOptions options = small_options();
  options.effort = {1e-9, 1};
  options.measured = [&](const std::string&) {
    const Moved now{gpu.collectives(), gpu.collective_bytes()};
    found.push_back({now.operations - before.operations, now.bytes - before.bytes});
    before = now;
  };
  const NodeCollectives measured = measure_on(2, options);

  std::vector<Moved> expected;
  const auto expect = [&](CollectiveKind kind, std::int64_t bytes) {
    const Moved one = moved(kind, bytes);
    expected.push_back({3 * one.operations, 3 * one.bytes});
  };
  for (const NodeCollectives::Curve& curve : measured.curves)
    for (const NodeCollectives::Time& time : curve.times) expect(curve.kind, time.bytes);
  expect(CollectiveKind::kShift, measured.neighbours.bytes);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 1; i < found.size(); ++i) EXPECT_EQ(found[i], expected[i]) << i;
  EXPECT_GT(found[0].operations, expected[0].operations) << "each kind is used once before";
}

TEST(CollectivesOfANode, EndWithTheFailureOfOneDevice) {
  for (const int task : {20, 200}) {
    StandIn gpu({.devices = 3});
    gpu.fail_task(1, cudaErrorECCUncorrectable, task);
    EXPECT_NE(error_of([] { measure_on(3, small_options()); }), "") << task;
    EXPECT_EQ(gpu.findings(), std::vector<std::string>{}) << task;
  }
}

TEST(CollectivesOfANode, EndWithWhatACommunicatorReports) {
  StandIn gpu({.devices = 2});
  NodeCollectiveOptions options = small_options();
  options.measured = [&gpu](const std::string&) { gpu.fail_communicators(ncclRemoteError); };
  EXPECT_THAT(error_of([&] { measure_on(2, options); }), testing::HasSubstr("NCCL reports"));
  EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
}

TEST(CollectivesOfANode, NeedMemoryForTheLargest) {
  StandIn gpu({.devices = 2, .memory = 6000});
  EXPECT_THAT(error_of([] { measure_on(2, small_options()); }),
              testing::HasSubstr("cannot give a slab"));
  EXPECT_EQ(gpu.findings(), std::vector<std::string>{});
}

}  // namespace
}  // namespace zplan::exec
