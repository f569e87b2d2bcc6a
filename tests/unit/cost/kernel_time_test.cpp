#include "planner/cost/kernel_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/cost/small_machine.h"

namespace zplan {
namespace {

const DeviceProfile kDevice = small_machine().node.device;

double time_of(KernelId kernel, const Demand& demand, const StackRates& stack = {},
               const DeviceProfile& device = kDevice) {
  return kernel_time(kernel, demand, "fp32", device, stack).time.value;
}

TEST(KernelTime, AttentionRunsAtItsOwnEfficiency) {
  const Demand demand{
      .kind = WorkKind::kAttention, .flops = Flops{1'000'000'000}, .bytes = Bytes{8}};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kAttentionForward, demand), 4e-3);
}

TEST(KernelTime, AMemoryKernelIgnoresItsFlop) {
  const Demand demand{.flops = Flops{1'000'000'000'000}, .bytes = Bytes{1000}};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kGeluForward, demand), 1e-9);
}

TEST(KernelTime, TheStackMultipliesTrafficByKindOfKernel) {
  const Demand demand{.bytes = Bytes{1000}};
  const StackRates stack{.elementwise = 2, .softmax = 3, .loss = 5, .optimizer = 7};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kGeluForward, demand, stack), 2e-9);
  EXPECT_DOUBLE_EQ(time_of(KernelId::kSoftmaxBackward, demand, stack), 3e-9);
  EXPECT_DOUBLE_EQ(time_of(KernelId::kCrossEntropyStatistics, demand, stack), 5e-9);
  EXPECT_DOUBLE_EQ(time_of(KernelId::kSumSquares, demand, stack), 7e-9);
  EXPECT_DOUBLE_EQ(time_of(KernelId::kCast, demand, stack), 1e-9);
}

TEST(KernelTime, TheStackMultipliesTimesOfProductsAndAttention) {
  DeviceProfile device = kDevice;
  device.sm_count = 100;
  const Demand product{.kind = WorkKind::kGemm, .product = {4096, 4096, 4096}};
  const Demand heads{.kind = WorkKind::kGemm, .product = {4096, 4096, 4096, 2}};
  const StackRates stack{.gemm = 2, .scores = 3};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kLinearForward, product, stack, device),
                   2 * time_of(KernelId::kLinearForward, product, {}, device));
  EXPECT_DOUBLE_EQ(time_of(KernelId::kAttentionScores, heads, stack, device),
                   3 * time_of(KernelId::kAttentionScores, heads, {}, device));
  device.sustained = 1.5;
  EXPECT_DOUBLE_EQ(time_of(KernelId::kLinearForward, product, {}, device),
                   1.5 * tile_time({4096, 4096, 4096}, "fp32", device).value);
}

TEST(KernelTime, BackwardOfMeasuredAttentionTakesTwoPointNineTimesForward) {
  const DeviceProfile a100 = load_cluster("dgx-a100").node.device;
  const auto time = [&](bool backward) {
    const Demand demand{.kind = WorkKind::kAttention,
                        .attention = {8, 16, 2048, 128, backward, 2048 * 2049 / 2}};
    return kernel_time(KernelId::kAttentionForward, demand, "bf16", a100, {}).time -
           a100.gemm_overhead;
  };
  EXPECT_NEAR(time(true).value / time(false).value, 2.9, 1e-9);
}

// Fused attention of 8 sequences of 2,048 tokens, 16 heads of 128, as the kernel table demands it.
double fused_time(std::int64_t window, bool both_ways) {
  const DeviceProfile a100 = load_cluster("dgx-a100").node.device;
  std::vector<View> operands(3);
  operands[0].shape = {8, 2048, 16, 3 * 128};
  operands[1].shape = {8, 2048, 16, 128};
  operands[2].shape = {8, 16, 2048};
  AttributeValues values{};
  values[0] = window;
  values[5] = both_ways ? 1 : 0;
  const Demand demand = kernel_def(KernelId::kAttentionForward).demand({operands, values});
  return (kernel_time(KernelId::kAttentionForward, demand, "bf16", a100, {}).time -
          a100.gemm_overhead)
      .value;
}

TEST(KernelTime, MeasuredAttentionBothWaysTakesTheWholeSquare) {
  EXPECT_NEAR(fused_time(0, true) / fused_time(0, false), 2 * 2048.0 / 2049, 1e-9);
}

TEST(KernelTime, MeasuredAttentionOfAWindowTakesWhatItSees) {
  const double seen = 1024 * 1025 / 2 + (2048 - 1024) * 1024;
  EXPECT_NEAR(fused_time(1024, false) / fused_time(0, false), seen / (2048 * 2049 / 2), 1e-9);
}

TEST(KernelTime, EveryKernelHasATime) {
  for (int id = 0; id < kKernelCount; ++id) {
    const auto kernel = static_cast<KernelId>(id);
    const Demand demand{.kind = kernel_def(kernel).kind, .flops = Flops{100}, .bytes = Bytes{100}};
    EXPECT_GT(time_of(kernel, demand), 0) << id;
  }
}

TEST(KernelTime, AHostKernelWithoutFlopIsNotBoundByTheCores) {
  const Demand demand{.kind = WorkKind::kHost, .bytes = Bytes{100}};
  EXPECT_TRUE(std::isinf(core_rate(demand, small_machine().node.host, 4).value));
}

TEST(KernelTime, TheRanksOfANodeShareItsCores) {
  const Demand demand{.flops = Flops{1000}, .bytes = Bytes{2000}};
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
  return kernel_def(KernelId::kEmbeddingBackward).demand({operands}).bytes;
}

TEST(Demand, OfTheEmbeddingGradientCountsTouchedRowsWhenItAdds) {
  constexpr std::int64_t kTokens = 2 * 4 * 4, kDx = 2 * 3 * 4 * 4, kRow = 4 * 4;
  EXPECT_EQ(embedding_backward_traffic(Access::kWrite), Bytes{kTokens + kDx + (100 + 3) * kRow});
  EXPECT_EQ(embedding_backward_traffic(Access::kUpdate), Bytes{kTokens + kDx + 2 * (6 + 3) * kRow});
}

}  // namespace
}  // namespace zplan
