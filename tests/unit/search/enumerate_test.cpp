#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/core/error.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Plan> leaves(const char* model, const char* cluster, const Pins& pins = {}) {
  return enumerate(load_model(model), load_cluster(cluster), pins);
}

std::string refusal(const char* model, const char* cluster, const Pins& pins) {
  try {
    leaves(model, cluster, pins);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

// Per shape and micro-batch: recompute none or full, the latter with checkpoints on either tier (3)
// x gather unit (2) x homes: ZeRO 0 and 1 the optimizer's (2), ZeRO 2 also gradients with it (3),
// ZeRO 3 also parameters (6).
constexpr std::size_t kPerMicroBatch = 3 * 2 * (2 + 2 + 3 + 6);

TEST(Enumerate, CountsEveryLegalCombinationOnce) {
  // 512 replicas x 5 sequences: micro-batches 1, 5; 256 x 10: 1, 2, 5, 10.
  EXPECT_EQ(leaves("1T", "dgx2x32").size(), (2 + 4) * kPerMicroBatch);
  // Four workers x 2 sequences; two x 4.
  EXPECT_EQ(leaves("tiny", "workstation").size(), (2 + 3) * kPerMicroBatch);
}

TEST(Enumerate, LeavesAreLegalAndDifferent) {
  const ModelConfig model = load_model("gpt2");
  std::set<std::string> seen;
  for (const Plan& plan : leaves("gpt2", "dgx2")) {
    EXPECT_EQ(illegal(plan, model.layers), std::nullopt);
    EXPECT_TRUE(seen.insert(to_json(plan)).second);
    EXPECT_EQ(plan.parallel.dp * plan.parallel.pp, 16);
    EXPECT_EQ(plan.prefetch, Plan{}.prefetch);
    EXPECT_EQ(plan.kernel_set, "cuda.sm70.fp16");
    EXPECT_TRUE(plan.loss_scaling);
    EXPECT_TRUE(plan.clip);
    EXPECT_EQ(plan.batch.global_batch, 512);
    EXPECT_EQ(plan.batch.sequence, 1024);
  }
}

TEST(Enumerate, PinsAreObeyed) {
  Pins pins;
  pins.dp = 2;
  pins.micro_batch = 2;
  pins.zero_stage = 3;
  pins.recompute = Recompute::kFull;
  pins.gather = GatherUnit::kLayer;
  pins.params = pins.grads = pins.optimizer = pins.activations = Tier::kCpu;
  pins.prefetch = 3;
  pins.kernel_set = "cpu.f64";
  pins.clip = false;
  pins.global_batch = 4;
  pins.sequence = 7;
  const std::vector<Plan> plans = leaves("tiny", "workstation", pins);
  ASSERT_EQ(plans.size(), 2u);  // one and two stages
  EXPECT_EQ(plans[0].parallel, (Parallel{2, 1}));
  EXPECT_EQ(plans[1].parallel, (Parallel{2, 2}));
  const Plan& p = plans[0];
  EXPECT_EQ(p.batch, (Batch{4, 2, 7}));
  EXPECT_EQ(p.placement, (StatePlacement{Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kCpu}));
  EXPECT_EQ(p.precision, default_recipe("cpu.f64"));
  EXPECT_EQ(p.prefetch, 3);
  EXPECT_FALSE(p.clip);
  EXPECT_FALSE(p.loss_scaling);
}

TEST(Enumerate, APinnedDepthTakesTheReplicasThatFit) {
  Pins pins;
  pins.pp = 3;
  pins.global_batch = 10;
  for (const Plan& plan : leaves("tiny", "dgx2", pins)) EXPECT_EQ(plan.parallel, (Parallel{5, 3}));
}

TEST(Enumerate, NamesTheNearestGlobalBatch) {
  // 384 devices: 2688 = 7 x 384, 2496 = 13 x 192.
  EXPECT_THAT(refusal("1T", "dgx2x24", {}),
              AllOf(HasSubstr("global batch 2560"), HasSubstr("dp 384"), HasSubstr("dp 192"),
                    HasSubstr("nearest that is: 2496")));
  Pins pins;
  pins.micro_batch = 3;
  EXPECT_THAT(refusal("tiny", "workstation", pins), HasSubstr("micro-batch 3"));
}

TEST(Enumerate, RefusesSizesThatCannotBe) {
  Pins pins;
  pins.dp = 17;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("dp 16 is possible"));
  pins.pp = 2;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("dp 8 is possible"));
  pins = {};
  pins.pp = 17;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("pp 16 is possible"));
  pins.pp = 5;
  pins.global_batch = 3;
  EXPECT_THAT(refusal("tiny", "dgx2", pins), HasSubstr("4 layers"));
  pins = {};
  pins.dp = 0;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("dp must be at least 1"));
  pins = {};
  pins.sequence = std::int64_t{1} << 40;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("sequence"));
  pins = {};
  pins.global_batch = pins.sequence = std::int64_t{1} << 20;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("tokens per step"));
}

TEST(Enumerate, SaysWhyPinsContradictEachOther) {
  Pins pins;
  pins.zero_stage = 1;
  pins.params = Tier::kCpu;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("ZeRO stage 3, not 1"));
  pins = {};
  pins.recompute = Recompute::kNone;
  pins.activations = Tier::kCpu;
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("recompute full"));
  pins = {};
  pins.kernel_set = "cuda.sm70";
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("kernel set"));
}

}  // namespace
}  // namespace zplan
