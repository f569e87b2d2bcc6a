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
    EXPECT_GE(device.tables->product({size, size, size}, "bf16", device).value,
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
    sum += std::abs(device.tables->product(size, "bf16", device).value / measured - 1);
    ++rows;
  }
  ASSERT_GT(rows, 100);
  EXPECT_LT(sum / rows, 0.06);
}

TEST(KernelTables, LongSequencesReachMoreOfThePeak) {
  const DeviceProfile device = a100();
  const auto rate = [&](std::int64_t sequence) {
    return device.tables->attention_rate({65536 / sequence, 16, sequence, 128}, device);
  };
  EXPECT_LT(rate(256), rate(1024));
  EXPECT_LT(rate(1024), rate(4096));
  EXPECT_GT(rate(256), 0.05);
  EXPECT_LT(rate(8192), 0.9);
}

TEST(KernelTables, ADeviceWithoutATableIsCutIntoTiles) {
  const DeviceProfile device = a100();
  const KernelTables none("none");
  const ProductSize size{4096, 4096, 4096};
  EXPECT_EQ(none.product(size, "bf16", device), tile_time(size, "bf16", device));
  EXPECT_EQ(none.attention_rate({1, 16, 1024, 128}, device), 0.0);
}

}  // namespace
}  // namespace zplan
