// A model whose states are many times what "GPU" and "CPU" memory hold trains from NVMe, with the
// same numbers as in memory.
#include <gtest/gtest.h>

#include "exec/memory/state_access.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_dir.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::train;

constexpr Bytes kGpuTier{16 << 20}, kCpuTier{64 << 20};
constexpr Bytes kStates{std::int64_t{400} << 20};
constexpr int kSteps = 2;

// 26.5 million parameters, 16 bytes each in fp32 with AdamW: 405 MiB of states.
Plan three_tier_plan() {
  Plan plan = testing_support::base_plan("cpu.f32", ZPLAN_SOURCE_DIR "/tests/data/deep.json");
  plan.zero_stage = 3;
  plan.batch = {.global_batch = 2, .micro_batch = 1, .sequence = 32};
  plan.recompute = {{Recompute::kFull, 0}};
  plan.placement = {Tier::kNvme, Tier::kNvme, Tier::kNvme, Tier::kNvme};
  return plan;
}

Bytes slab(const Job& job, Tier tier) {
  return job.classes[0].placement.slab[static_cast<std::size_t>(tier)];
}

TEST(ThreeTiers, TrainsBeyondGpuAndCpuMemoryWithTheSameNumbers) {
  if (testing_support::kSanitized)
    GTEST_SKIP() << "its sizes are what matters: smaller plans take the same paths";
  exec::RunOptions options;
  options.steps = kSteps;
  const auto got = train(three_tier_plan(), options);
  EXPECT_LE(slab(got->job, Tier::kGpu), kGpuTier);
  EXPECT_LE(slab(got->job, Tier::kCpu), kCpuTier);
  Bytes states{0};
  for (const Buffer& b : got->job.classes[0].program.buffers) states += b.unpadded;
  EXPECT_GE(states, kStates);
  EXPECT_GE(slab(got->job, Tier::kNvme), kStates);

  Plan in_memory = three_tier_plan();
  in_memory.placement = {};
  const auto expected = train(in_memory, options);
  for (std::size_t i = 0; i < kSteps; ++i)
    EXPECT_EQ(got->result.steps[i].loss, expected->result.steps[i].loss);
  for (exec::State state : exec::kStates)
    EXPECT_FALSE(exec::largest_difference(got->job, got->result.memory, expected->job,
                                          expected->result.memory, state, exec::Equality::kBits));
}

}  // namespace
}  // namespace zplan
