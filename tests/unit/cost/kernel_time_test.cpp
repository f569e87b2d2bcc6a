#include "planner/cost/kernel_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

// Two sequences of 3 tokens, rows of 4 floats; tables of 100 and 3 rows.
Bytes embedding_backward_traffic(Access access) {
  std::vector<View> operands(4);
  operands[0].dtype = DType::kI32;
  operands[0].shape = {2, 4};
  operands[1].shape = {2, 3, 4};
  operands[2].shape = {100, 4};
  operands[3].shape = {3, 4};
  operands[2].access = operands[3].access = access;
  return kernel_def(KernelId::kEmbeddingBackward).demand(operands).bytes;
}

TEST(Demand, OfTheEmbeddingGradientCountsTouchedRowsWhenItAdds) {
  constexpr std::int64_t kTokens = 2 * 4 * 4, kDx = 2 * 3 * 4 * 4, kRow = 4 * 4;
  EXPECT_EQ(embedding_backward_traffic(Access::kWrite), Bytes{kTokens + kDx + (100 + 3) * kRow});
  EXPECT_EQ(embedding_backward_traffic(Access::kUpdate), Bytes{kTokens + kDx + 2 * (6 + 3) * kRow});
}

}  // namespace
}  // namespace zplan
