// zplan's own attention kernels against what they took on an H100
// (reports/gpu_attention_scratch.md).
#include "planner/cost/vector_attention.h"

#include <gtest/gtest.h>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"

namespace zplan {
namespace {

AttentionWork causal(std::int64_t batch, std::int64_t s, std::int64_t heads, std::int64_t size,
                     bool backward) {
  return {batch, heads, s, size, backward, s * (s + 1) / 2, size};
}

double milliseconds(const AttentionWork& work, const char* cluster = "dgx-h100") {
  const DeviceProfile device = load_cluster(cluster).node.device;
  return vector_attention_time(work, device, load_stack("own").rates)->time.value * 1e3;
}

// Two factors stand for four measured times, over heads of 100 and 128 elements.
TEST(VectorAttention, TakesAsLongAsOnAnH100) {
  EXPECT_NEAR(milliseconds(causal(2, 2048, 16, 100, false)), 2.17, 0.05);
  EXPECT_NEAR(milliseconds(causal(2, 2048, 16, 100, true)), 12.9, 0.3);
  EXPECT_NEAR(milliseconds(causal(1, 8192, 32, 128, true)), 209, 5);
  EXPECT_NEAR(milliseconds(causal(1, 8192, 64, 128, true)), 418, 10);
}

// A head is padded to the width of its tile.
TEST(VectorAttention, HeadsOfOneTileTakeEquallyLong) {
  for (const bool backward : {false, true}) {
    EXPECT_EQ(shared_loads(causal(1, 1024, 8, 72, backward)),
              shared_loads(causal(1, 1024, 8, 128, backward)));
    EXPECT_GT(shared_loads(causal(1, 1024, 8, 136, backward)),
              1.5 * shared_loads(causal(1, 1024, 8, 128, backward)));
  }
}

// Loads per multiply-add, counted by hand from exec/cuda/kernels/attention_*.cuh.
TEST(VectorAttention, LoadsAreThoseOfTheTiles) {
  const double products = 128.0 * 1024 * 1025 / 2;
  EXPECT_DOUBLE_EQ(shared_loads(causal(1, 1024, 1, 128, false)),
                   products * (1 + 1.0 / 2 + 1.0 / 8));
  EXPECT_DOUBLE_EQ(shared_loads(causal(1, 1024, 1, 128, true)),
                   products * (4 * 2 + 3 * (1 + 1.0 / 8)));
  EXPECT_DOUBLE_EQ(shared_loads(causal(1, 1024, 1, 256, true)),
                   2 * products * (4 * 2 + 3 * (1 + 1.0 / 32)));
  EXPECT_DOUBLE_EQ(shared_loads(causal(1, 1024, 1, 64, true)),
                   products / 2 * (4 + 3 * (1.0 / 2 + 1.0 / 4)));
}

// A multiprocessor of an A100 has half the units of one of an H100, and shared memory as fast.
TEST(VectorAttention, FollowsTheClockAndTheMultiprocessorsOfTheDevice) {
  const DeviceProfile a100 = load_cluster("dgx-a100").node.device;
  const DeviceProfile h100 = load_cluster("dgx-h100").node.device;
  EXPECT_NEAR(*shared_load_rate(a100), 108 * 1.41e9 * 32, 0.01 * 108 * 1.41e9 * 32);
  EXPECT_NEAR(*shared_load_rate(h100), 132 * 1.98e9 * 32, 0.01 * 132 * 1.98e9 * 32);
}

TEST(VectorAttention, SoftwareWithoutSuchKernelsHasNoTime) {
  const DeviceProfile device = load_cluster("dgx-h100").node.device;
  const AttentionWork work = causal(1, 1024, 8, 100, false);
  EXPECT_FALSE(vector_attention_time(work, device, load_stack("megatron_core").rates));
  EXPECT_FALSE(
      vector_attention_time(work, load_cluster("mi300x").node.device, load_stack("own").rates));
}

}  // namespace
}  // namespace zplan
