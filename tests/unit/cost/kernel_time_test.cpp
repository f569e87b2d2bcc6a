#include "planner/cost/kernel_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "hwprofiles/kernel_tables.h"
#include "planner/program/kernels/kernel_set.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

const DeviceProfile kDevice = small_machine().node.device;

double time_of(KernelId kernel, const Demand& demand, const StackRates& stack = {},
               const DeviceProfile& device = kDevice) {
  return kernel_time(kernel, demand, "fp32", device, stack).time.value;
}

// [Jordan24] On devices without bf16, and on the CPU, in the type that is stored.
TEST(FormatOf, MuonOrthogonalisesInBf16) {
  ClassBuilder builder;
  builder.matmul(64, 64, 64);
  const Job job = make_job(builder);
  const Program& program = job.classes[0].program;
  Node node = program.nodes[0];
  node.kernel = KernelId::kOrthogonalise;
  const auto format = [&](const char* set) {
    return format_of(program, node, &find_kernel_set(set));
  };
  for (const char* set : {"cuda.sm80.bf16", "cuda.sm90.fp8", "cuda.sm100.mxfp8"})
    EXPECT_EQ(format(set), "bf16") << set;
  for (const char* set : {"cuda.sm70.fp16", "cpu.f32"}) EXPECT_EQ(format(set), "fp32") << set;
}

TEST(KernelTime, AttentionRunsAtItsOwnEfficiency) {
  const Demand demand{
      .kind = WorkKind::kAttention, .flops = Flops{1'000'000'000}, .bytes = Bytes{8}};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kAttentionForward, demand), 4e-3);
}

// 4 flop at 0.25 TFLOP/s take 16 ps, 1,000 bytes at 1 TB/s a nanosecond.
TEST(KernelTime, AttentionTakesTheTimeOfItsBytesWhereTheyTakeLonger) {
  const Demand demand{.kind = WorkKind::kAttention, .flops = Flops{4}, .bytes = Bytes{1000}};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kAttentionForward, demand), 1e-9);
}

// With tiles and without; the fixed time of a device without tiles comes after it.
TEST(KernelTime, AProductTakesTheTimeOfItsBytesWhereTheyTakeLonger) {
  const Demand demand{.kind = WorkKind::kGemm,
                      .flops = Flops{2 * 16 * 16 * 16},
                      .bytes = Bytes{1'000'000'000},
                      .product = {16, 16, 16}};
  DeviceProfile device = kDevice;
  device.gemm_overhead = {2e-6};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kLinearForward, demand, {}, device), 1e-3 + 2e-6);
  device.sm_count = 100;
  EXPECT_DOUBLE_EQ(time_of(KernelId::kLinearForward, demand, {}, device), 1e-3);
}

// [PyTorch] Lists of tensors: 80 bytes for each parameter in fp32, where a fused kernel reads 16,
// parameter, gradient and moments, and writes 12.
TEST(KernelTime, AnUpdateByListsIsEightKernels) {
  const Demand demand{.bytes = Bytes{28'000'000}};
  const double fused = time_of(KernelId::kAdamW, demand);
  EXPECT_NEAR(time_of(KernelId::kAdamW, demand, {.foreach_update = true}), fused * 80 / 28, 1e-12);
  EXPECT_EQ(time_of(KernelId::kSgd, demand, {.foreach_update = true}),
            time_of(KernelId::kSgd, demand));
}

// A causal kernel works out 4 x 5 / 2 of 16 pairs; with the mask as a tensor all of them, by a
// kernel that takes 1343.3 us where FlashAttention-2 takes 714.9, and 1.55 times as long as its
// predecessor backward, where that is 1.05 forward [xFormers].
TEST(KernelTime, AttentionWithADenseMaskWorksOutAllPairs) {
  Demand demand{.kind = WorkKind::kAttention, .flops = Flops{1'000'000'000}, .bytes = Bytes{8}};
  demand.attention = {.batch = 1, .heads = 1, .sequence = 4, .head_size = 8, .pairs = 10};
  const double causal = time_of(KernelId::kAttentionForward, demand);
  const double forward = causal * 1.6 * 1343.3 / 714.9;
  EXPECT_NEAR(time_of(KernelId::kAttentionForward, demand, {.dense_mask = true}), forward, 1e-12);
  demand.attention.backward = true;
  EXPECT_NEAR(time_of(KernelId::kAttentionBackward, demand, {.dense_mask = true}),
              forward * 1.55 / 1.05, 1e-12);
}

// 1,000 bytes at half of 1 TB/s.
TEST(KernelTime, AMemoryKernelReachesTheEfficiencyOfTheMemory) {
  DeviceProfile device = kDevice;
  device.memory_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(time_of(KernelId::kGeluForward, {.bytes = Bytes{1000}}, {}, device), 2e-9);
}

// Where products are cut into tiles, what starts and ends a kernel is known apart from them.
TEST(KernelTime, KernelsOfDevicesWithTilesHaveAFixedTime) {
  const Demand stream{.bytes = Bytes{1000}};
  const Demand attention{
      .kind = WorkKind::kAttention, .flops = Flops{1'000'000'000}, .bytes = Bytes{8}};
  DeviceProfile device = kDevice;
  device.gemm_overhead = {2e-6};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kGeluForward, stream, {}, device), 1e-9);
  EXPECT_DOUBLE_EQ(time_of(KernelId::kAttentionForward, attention, {}, device), 4e-3);
  device.sm_count = 100;
  EXPECT_DOUBLE_EQ(time_of(KernelId::kGeluForward, stream, {}, device), 1e-9 + 2e-6);
  EXPECT_DOUBLE_EQ(time_of(KernelId::kAttentionForward, attention, {}, device), 4e-3 + 2e-6);
}

TEST(KernelTime, ProductsOneAfterTheOtherTakeTheTimeOfAll) {
  DeviceProfile device = kDevice;
  device.sm_count = 100;
  const auto time = [&](std::int64_t times) {
    const Demand demand{.kind = WorkKind::kGemm, .product = {512, 512, 512, 1, times}};
    return time_of(KernelId::kLinearForward, demand, {}, device);
  };
  EXPECT_DOUBLE_EQ(time(3), 3 * time(1));
}

// Products of experts are those of a layer's matrices, however many there are at once.
TEST(KernelTime, ProductsOfExpertsDoNotTakeTheRateOfScores) {
  DeviceProfile device = kDevice;
  device.sm_count = 100;
  const Demand demand{.kind = WorkKind::kGemm, .product = {4096, 4096, 4096, 8}};
  const StackRates stack{.gemm = 2, .scores = 3};
  EXPECT_DOUBLE_EQ(time_of(KernelId::kGroupedForward, demand, stack, device),
                   2 * time_of(KernelId::kGroupedForward, demand, {}, device));
}

// [MatMul-Guide sec 2.2] Heads of 100 numbers are no multiple of 16 bytes: 31 TFLOP/s in place of
// 125. Numbers of 32 bits never have tensor cores here, and a layer's weights are another matter.
TEST(KernelTime, ScoresOfHeadsThatAreNotAlignedTakeNoTensorCores) {
  DeviceProfile device = kDevice;
  device.sm_count = 100;
  device.peaks["fp16"] = device.peak("fp32");
  const auto time = [&](KernelId kernel, std::int64_t head, std::string_view format) {
    const Demand demand{.kind = WorkKind::kGemm, .product = {4096, 4096, head, 64}};
    return kernel_time(kernel, demand, format, device, {}).time.value;
  };
  const auto ratio = [&](KernelId kernel, std::string_view format) {
    return time(kernel, 100, format) / time(kernel, 104, format);
  };
  EXPECT_NEAR(ratio(KernelId::kAttentionScores, "fp16"), 4, 0.3);
  EXPECT_NEAR(ratio(KernelId::kAttentionScores, "fp32"), 1, 0.1);
  EXPECT_NEAR(ratio(KernelId::kGroupedForward, "fp16"), 1, 0.1);
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

constexpr AttentionWork kCausal{.batch = 8,
                                .heads = 16,
                                .sequence = 2048,
                                .head_size = 128,
                                .pairs = 2048 * 2049 / 2,
                                .widest = 128};

TEST(KernelTime, MeasuredAttentionTakesTheTimeOfItsTableInEitherFormatOfTwoBytes) {
  const DeviceProfile a100 = load_cluster("dgx-a100").node.device;
  const Demand demand{.kind = WorkKind::kAttention, .attention = kCausal};
  const auto measured =
      a100.tables->attention({.batch = 8, .heads = 16, .sequence = 2048, .head_size = 128}, a100);
  ASSERT_TRUE(measured);
  for (const std::string_view format : {"bf16", "fp16"}) {
    const Seconds time = kernel_time(KernelId::kAttentionForward, demand, format, a100, {}).time;
    EXPECT_DOUBLE_EQ((time - a100.gemm_overhead).value, measured->value) << format;
  }
}

TEST(KernelTime, OlderAttentionIsThatOfDevicesThatHaveANewerOne) {
  const auto ratio = [](const char* cluster) {
    const DeviceProfile device = load_cluster(cluster).node.device;
    const Demand demand{.kind = WorkKind::kAttention, .attention = kCausal};
    const auto time = [&](const StackRates& stack) {
      return (kernel_time(KernelId::kAttentionForward, demand, "bf16", device, stack).time -
              device.gemm_overhead)
          .value;
    };
    return time({.attention_older = 2}) / time({});
  };
  EXPECT_NEAR(ratio("dgx-h100"), 2, 1e-9);
  EXPECT_NEAR(ratio("dgx-a100"), 1, 1e-9);
}

TEST(KernelTime, BackwardOfMeasuredAttentionTakesTheTimeOfItsOwnRows) {
  const auto ratio = [](const char* cluster) {
    const DeviceProfile device = load_cluster(cluster).node.device;
    const auto time = [&](bool backward) {
      AttentionWork work = kCausal;
      work.backward = backward;
      const Demand demand{.kind = WorkKind::kAttention, .attention = work};
      return kernel_time(KernelId::kAttentionForward, demand, "bf16", device, {}).time.value;
    };
    return time(true) / time(false);
  };
  EXPECT_GT(ratio("dgx-a100"), 2.2);
  EXPECT_LT(ratio("dgx-a100"), 3.2);
  EXPECT_GT(std::abs(ratio("dgx-b200") - ratio("dgx-a100")), 0.01);
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

// Twice the pairs of a causal mask, but no tiles of which half is hidden.
TEST(KernelTime, MeasuredAttentionBothWaysTakesLessThanTwiceAsLong) {
  EXPECT_LT(fused_time(0, true) / fused_time(0, false), 2 * 2048.0 / (2048 + 100));
  EXPECT_GT(fused_time(0, true) / fused_time(0, false), 1.3);
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

// Tensor cores take 8 elements of two bytes at a time.
TEST(KernelTime, AHeadIsAlignedWhereItsWidthIsAMultipleOfEight) {
  const auto is_unaligned = [](std::int64_t width) {
    Program program;
    program.attributes.emplace_back()[0].base = width;
    program.nodes.push_back({.kind = OpKind::kKernel, .kernel = KernelId::kCrossEntropy});
    program.nodes.back().attributes = 0;
    return has_unaligned_head(program);
  };
  for (const std::int64_t width : {50'257, 50'258, 50'260, 4}) EXPECT_TRUE(is_unaligned(width));
  for (const std::int64_t width : {50'256, 50'264, 8}) EXPECT_FALSE(is_unaligned(width));
  EXPECT_FALSE(has_unaligned_head(Program{}));
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
