#include "exec/measure/core_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "exec/cpu/cpu_device.h"
#include "exec/measure/core_cases.h"
#include "exec/measure/meeting_times.h"

namespace zplan::exec {
namespace {

CoreCalibration quick_calibration(const std::string& directory) {
  cpu::CpuDevice device;
  CoreOptions options;
  options.cores = 2;
  options.quick = true;
  options.directory = directory;
  return calibrate_cores(device, find_kernel_set("cpu.f32"), options);
}

TEST(CoreCalibration, EveryTimeIsPositiveAndEveryPlaceOccursOnce) {
  const std::string directory = testing::TempDir() + "/zplan-drive";
  std::filesystem::create_directory(directory);
  const CoreCalibration found = quick_calibration(directory);
  std::set<std::tuple<KernelId, int, std::array<std::int64_t, 3>>> places;
  for (const auto& kernel : found.kernels) {
    EXPECT_GT(kernel.seconds, 0) << name(kernel.kernel);
    EXPECT_TRUE(places.insert({kernel.kernel, kernel.threads, kernel.sizes}).second)
        << name(kernel.kernel) << " " << kernel.sizes[0];
  }
  for (const auto& meeting : found.collectives) EXPECT_GT(meeting.seconds, 0);
  for (const auto* moves : {&found.copies, &found.transfers, &found.reads, &found.writes})
    for (const auto& move : *moves) EXPECT_GT(move.seconds, 0);
  EXPECT_GT(found.wake, 0);
  EXPECT_GT(found.operation, 0);
  EXPECT_GE(found.products_together, 1);
  EXPECT_EQ(found.reads.size(), found.writes.size());
  EXPECT_GT(found.reads.size(), 1u);
  EXPECT_GE(found.read_beside_write, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::filesystem::remove(directory);
}

// Cases are of sets with and without fused attention; kernels of the host, of attention that stores
// its probabilities in products of one head, to blocks of other ranks or with a bias, of casts to
// codes and of recurrences take the rates.
TEST(CoreCases, HoldEveryKernelThatTakesTimeInAStep) {
  const std::set<KernelId> without{KernelId::kLoadBatch,
                                   KernelId::kLoadPixels,
                                   KernelId::kStepScalars,
                                   KernelId::kClipCoefficient,
                                   KernelId::kReport,
                                   KernelId::kLinearGeluForward,
                                   KernelId::kGeluInputGradient,
                                   KernelId::kAttentionScores,
                                   KernelId::kAttentionContext,
                                   KernelId::kAttentionContextGradient,
                                   KernelId::kAttentionScoresGradient,
                                   KernelId::kBlockAttentionForward,
                                   KernelId::kBlockAttentionBackward,
                                   KernelId::kBiasedAttentionForward,
                                   KernelId::kBiasedAttentionBackward,
                                   KernelId::kChooseKeys,
                                   KernelId::kChooseKeysBackward,
                                   KernelId::kChosenAttentionForward,
                                   KernelId::kChosenAttentionBackward,
                                   KernelId::kChosenShares,
                                   KernelId::kOrthogonalise,
                                   KernelId::kDropoutForward,
                                   KernelId::kDropoutBackward,
                                   KernelId::kDropoutResidualAdd,
                                   KernelId::kQuantizeRows,
                                   KernelId::kDequantizeRows,
                                   KernelId::kMambaScanForward,
                                   KernelId::kMambaScanBackward,
                                   KernelId::kDeltaScanForward,
                                   KernelId::kDeltaScanBackward,
                                   KernelId::kKimiScanForward,
                                   KernelId::kKimiScanBackward,
                                   KernelId::kSelectiveScanForward,
                                   KernelId::kSelectiveScanBackward};
  std::set<KernelId> held;
  for (const CoreCase& c : core_cases(find_kernel_set("cpu.f32"), 1, false)) {
    held.insert(c.call.kernel);
    EXPECT_EQ(c.threads, 1);
  }
  for (int k = 0; k < kKernelCount; ++k) {
    const auto kernel = static_cast<KernelId>(k);
    if (kernel_def(kernel).sets == Sets::kExperts) {  // no router chooses for them
      EXPECT_EQ(held.count(kernel), 0) << name(kernel);
      continue;
    }
    EXPECT_NE(held.count(kernel), without.count(kernel)) << name(kernel);
  }
}

// Others may use the cores meanwhile, but not every time.
TEST(MeetingTimes, MoreBytesTakeLonger) {
  const MeetingTimes times({0.02, 5});
  constexpr std::int64_t kSmall = 1 << 12, kLarge = 1 << 24;
  constexpr int kTries = 5;
  const auto expect_longer = [&](const auto& time) {
    double small = time(kSmall), large = time(kLarge);
    for (int i = 1; i < kTries; ++i) {
      small = std::min(small, time(kSmall));
      large = std::min(large, time(kLarge));
    }
    EXPECT_GT(large, 2 * small);
  };
  expect_longer([&](std::int64_t bytes) { return times.transfer(bytes); });
  expect_longer(
      [&](std::int64_t bytes) { return times.collective(CollectiveKind::kAllReduce, 2, bytes); });
}

}  // namespace
}  // namespace zplan::exec
