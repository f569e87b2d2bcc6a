#include "planner/cost/kernel_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/cost/small_machine.h"

namespace zplan {
namespace {

const DeviceProfile kDevice = small_machine().node.device;

TEST(KernelTime, AttentionRunsAtItsOwnEfficiency) {
  const Demand demand{WorkKind::kAttention, Flops{1'000'000'000}, Bytes{8}};
  EXPECT_DOUBLE_EQ(device_time(demand, DType::kF32, kDevice).value, 4e-3);
}

TEST(KernelTime, AMemoryKernelIgnoresItsFlop) {
  const Demand demand{WorkKind::kMemory, Flops{1'000'000'000'000}, Bytes{1000}};
  EXPECT_DOUBLE_EQ(device_time(demand, DType::kF32, kDevice).value, 1e-9);
}

TEST(KernelTime, EveryKernelHasATime) {
  for (int id = 0; id < kKernelCount; ++id) {
    const Demand demand{kernel_def(static_cast<KernelId>(id)).kind, Flops{100}, Bytes{100}};
    EXPECT_GT(device_time(demand, DType::kF32, kDevice).value, 0) << id;
  }
}

TEST(KernelTime, AHostKernelWithoutFlopIsNotBoundByTheCores) {
  const Demand demand{WorkKind::kHost, Flops{0}, Bytes{100}};
  EXPECT_TRUE(std::isinf(core_rate(demand, small_machine().node.host, 4).value));
}

TEST(KernelTime, TheRanksOfANodeShareItsCores) {
  const Demand demand{WorkKind::kMemory, Flops{1000}, Bytes{2000}};
  EXPECT_DOUBLE_EQ(core_rate(demand, small_machine().node.host, 1).value, 16e9);
  EXPECT_DOUBLE_EQ(core_rate(demand, small_machine().node.host, 4).value, 4e9);
}

}  // namespace
}  // namespace zplan
