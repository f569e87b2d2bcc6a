#include "hwprofiles/kernel_tables.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hwprofiles/csv_table.h"
#include "hwprofiles/hw_profile.h"

namespace zplan {
namespace {

DeviceProfile a100() { return load_cluster("dgx-a100").node.device; }

TEST(KernelTables, AProductTakesWholeWavesOfTiles) {
  DeviceProfile device = a100();
  device.tables = nullptr;
  // 108 tiles of 256 x 128 fill the SMs once, one more starts a second wave.
  const double one = tile_time({256 * 12, 128 * 9, 8192}, "bf16", device).value;
  const double more = tile_time({256 * 12 + 1, 128 * 9, 8192}, "bf16", device).value;
  EXPECT_GT(more, 1.2 * one);
}

TEST(KernelTables, NoProductIsFasterThanThePeak) {
  const DeviceProfile device = a100();
  for (std::int64_t size = 64; size <= 16384; size *= 2) {
    const double flop = 2.0 * std::pow(static_cast<double>(size), 3);
    EXPECT_GE(
        device.tables->product({size, size, size}, "bf16", ProductPhase::kForward, device).value,
        flop / device.peak("bf16").value);
  }
}

// Rows of the table itself, the nearest of which is each row: the interpolation reproduces them.
TEST(KernelTables, AgreesWithTheRowsOfTheTable) {
  const DeviceProfile device = a100();
  const auto table = find_table("gemm_a100_sxm");
  double sum = 0;
  int rows = 0;
  for (std::size_t row = 0; row < table->rows(); row += 7) {
    if (!table->text(row, table->column("source")).starts_with("trtllm")) continue;
    const auto number = [&](const char* name) {
      return static_cast<std::int64_t>(table->number(row, table->column(name)));
    };
    const ProductSize size{number("m"), number("n"), number("k")};
    if (size.m * size.n * size.k < std::int64_t{1} << 32) continue;
    const double measured = table->number(row, table->column("time_us")) * 1e-6;
    sum += std::abs(
        device.tables->product(size, "bf16", ProductPhase::kForward, device).value / measured - 1);
    ++rows;
  }
  ASSERT_GT(rows, 100);
  EXPECT_LT(sum / rows, 0.06);
}

AttentionSize heads(std::int64_t sequence, std::int64_t head_size = 128) {
  return {.batch = 65536 / sequence, .heads = 16, .sequence = sequence, .head_size = head_size};
}

double rate(const AttentionSize& size, const DeviceProfile& device) {
  return size.flop() / device.tables->attention(size, device)->value / device.peak("bf16").value;
}

TEST(KernelTables, LongSequencesReachMoreOfThePeak) {
  const DeviceProfile device = a100();
  EXPECT_LT(rate(heads(256), device), rate(heads(1024), device));
  EXPECT_LT(rate(heads(1024), device), rate(heads(4096), device));
  EXPECT_GT(rate(heads(256), device), 0.05);
  EXPECT_LT(rate(heads(8192), device), 0.9);
}

AttentionSize seeing_all(AttentionSize size) {
  size.sees_all = true;
  return size;
}

// Of s / 128 tiles of keys a causal block of 128 queries goes over (i + 1) of them, of which half
// of the last one is hidden: s (s + 128) / 2 pairs are multiplied for s (s + 1) / 2 that are seen.
TEST(KernelTables, AMaskMultipliesTheHiddenHalfOfTilesOnTheDiagonal) {
  const DeviceProfile device = a100();
  constexpr std::int64_t kTile = 128;
  for (const std::int64_t s : {1024, 4096, 16384}) {
    // Blocks of all heads fill whole waves of the SMs.
    const AttentionSize masked{.batch = 108, .heads = 16, .sequence = s, .head_size = 128};
    const double ratio = attention_tile_time(seeing_all(masked), 2, device).value /
                         attention_tile_time(masked, 2, device).value;
    EXPECT_NEAR(ratio, 2.0 * static_cast<double>(s) / static_cast<double>(s + kTile), 0.1 * ratio)
        << s;
  }
}

// [Shah24 fig. 5] 16,384 tokens, 16 heads of 128: 467 and 292 TFLOP/s at 512 tokens per sequence,
// 648 and 616 at 16,384, without a mask and with a causal one.
TEST(KernelTables, AttentionWithoutAMaskIsFasterTheShorterTheSequence) {
  for (const char* node : {"dgx-a100", "dgx-h100", "dgx-b200"}) {
    const DeviceProfile device = load_cluster(node).node.device;
    const auto gain = [&](std::int64_t s) {
      return rate(seeing_all(heads(s)), device) / rate(heads(s), device);
    };
    EXPECT_GT(gain(512), 1.3) << node;
    EXPECT_GT(gain(512), gain(4096)) << node;
    EXPECT_GT(gain(16384), 0.95) << node;
    EXPECT_LT(gain(16384), 1.35) << node;
  }
}

// A block of keys that another rank brings is half as long as the queries.
TEST(KernelTables, HalfOfTheKeysTakeHalfOfTheTime) {
  const DeviceProfile device = load_cluster("dgx-h100").node.device;
  AttentionSize half = seeing_all(heads(8192));
  half.keys = 4096;
  const double ratio = device.tables->attention(half, device)->value /
                       device.tables->attention(seeing_all(heads(8192)), device)->value;
  EXPECT_NEAR(ratio, 0.5, 0.03);
}

// [SimuMax] 4,096 tokens, 64 heads of 128 and 8 of keys: 1,484 and 4,383 us on A100, 280 and 837 on
// B200; 4 heads 214 and 408, 92 and 110. [Shah24 figs. 5, 6] 4,096 tokens without a mask on H100,
// 32 heads of 64: 476 and 453 TFLOP/s, for 2.5 times the flop.
TEST(KernelTables, BackwardTakesAsMuchLongerAsItIsMeasuredOnTheDevice) {
  const auto ratio = [](const char* node, AttentionSize size) {
    const DeviceProfile device = load_cluster(node).node.device;
    const double forward = device.tables->attention(size, device)->value;
    size.backward = true;
    return device.tables->attention(size, device)->value / forward;
  };
  const auto of = [](std::int64_t count, std::int64_t groups) {
    return AttentionSize{
        .batch = 1, .heads = count, .sequence = 4096, .head_size = 128, .groups = groups};
  };
  EXPECT_NEAR(ratio("dgx-a100", of(64, 8)), 4382.9 / 1484.4, 0.15);
  EXPECT_NEAR(ratio("dgx-a100", of(4, 1)), 408.07 / 214.17, 0.25);
  EXPECT_NEAR(ratio("dgx-b200", of(64, 8)), 837.45 / 280.35, 0.35);
  EXPECT_NEAR(ratio("dgx-b200", of(4, 1)), 110.46 / 91.516, 0.25);
  EXPECT_NEAR(
      ratio("dgx-h100", seeing_all({.batch = 4, .heads = 32, .sequence = 4096, .head_size = 64})),
      2.5 * 476 / 453, 0.2);
}

// [SimuMax] 4,096 x 10,240 x 8,192 in training on B200: 1,452, 1,121 and 1,345 TFLOP/s forward and
// for the gradients of inputs and of weights.
TEST(KernelTables, ProductsOfTrainingTakeWhatTheyTakeAtClocksThatLast) {
  const DeviceProfile b200 = load_cluster("dgx-b200").node.device;
  const auto rate_of = [&](const ProductSize& size, ProductPhase phase) {
    const double time = b200.tables->product(size, "bf16", ProductPhase::kForward, b200).value *
                        b200.tables->settled(size, phase, b200) * b200.sustained;
    return 2.0 * static_cast<double>(size.m * size.n) * static_cast<double>(size.k) / time;
  };
  EXPECT_NEAR(rate_of({32768, 8192, 7168}, ProductPhase::kForward), 1.1e15, 0.08e15);
  EXPECT_LT(rate_of({28672, 8192, 16384}, ProductPhase::kWeightGradient), 1.2e15);
  const DeviceProfile h100 = load_cluster("dgx-h100").node.device;
  EXPECT_EQ(h100.tables->settled({32768, 8192, 7168}, ProductPhase::kForward, h100), 1);
}

// [DeepBench] at 1,530 MHz; what is measured for long is taken to run at the base clock.
TEST(KernelTables, V100HasItsOwnTableAndSettles) {
  const DeviceProfile v100 = load_cluster("dgx2").node.device;
  const ProductSize size{6144, 24000, 2048};  // 106.2 TFLOP/s
  const double burst = v100.tables->product(size, "fp16", ProductPhase::kForward, v100).value;
  EXPECT_NEAR(2.0 * 6144 * 24000 * 2048 / burst, 106e12, 4e12);
  EXPECT_GT(v100.sustained, 1.05);
}

// Casts to one scale are kernels of each product of experts, those of blocks of all of them; the
// gradient of weights reads what the others have cast. A product in MXFP8 reads its operand once,
// one in NVFP4 twice.
TEST(KernelTables, ProductsInCodesCastTheirFirstOperand) {
  const DeviceProfile device = load_cluster("dgx-b200").node.device;
  const auto cast = [&](const char* format, ProductPhase phase, std::int64_t batch) {
    const ProductSize size{4096, 1024, 2048, batch};
    const KernelTables none("none");
    return (none.product(size, format, phase, device) - tile_time(size, format, device)).value;
  };
  constexpr auto kForward = ProductPhase::kForward, kWeights = ProductPhase::kWeightGradient;
  const double rate = device.memory_bandwidth.value * 0.8, kernel = 10e-6 / 3;
  const double elements = 4096.0 * 2048;
  EXPECT_NEAR(cast("mxfp8", kForward, 1), 3 * kernel + 4 * elements / rate, 1e-9);
  EXPECT_NEAR(cast("nvfp4", kForward, 1), 4 * kernel + 5.125 * elements / rate, 1e-9);
  EXPECT_NEAR(cast("mxfp8", kWeights, 1), 2 * kernel, 1e-9);
  EXPECT_NEAR(cast("mxfp8", kForward, 8), 3 * kernel + 8 * 4 * elements / rate, 1e-9);
  EXPECT_NEAR(cast("fp8", kForward, 8), 8 * cast("fp8", kForward, 1), 1e-9);
  EXPECT_NEAR(cast("fp8", kWeights, 1), 3 * kernel + 5 * elements / rate, 1e-9);
  EXPECT_EQ(cast("bf16", kForward, 8), 0);
}

TEST(KernelTables, ADeviceWithoutATableIsCutIntoTiles) {
  const DeviceProfile device = a100();
  const KernelTables none("none");
  const ProductSize size{4096, 4096, 4096};
  EXPECT_EQ(none.product(size, "bf16", ProductPhase::kForward, device),
            tile_time(size, "bf16", device));
  EXPECT_FALSE(none.attention(heads(1024), device));
}

}  // namespace
}  // namespace zplan
