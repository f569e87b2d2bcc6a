#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/core/error.h"
#include "planner/plan/plan.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;

Plan unusual_plan() {
  Plan plan;
  plan.model = "models/x.json";
  plan.hardware = "dgx2x32";
  plan.parallel = {.dp = 1 << 20, .tp = 16, .pp = 255, .sequence_parallel = true, .shards = 8};
  plan.zero_stage = 3;
  plan.placement = {Tier::kCpu, Tier::kNvme, Tier::kCpu, Tier::kNvme};
  plan.gather = Gather::of_layers(16);
  plan.prefetch = 64;
  plan.recompute = {{Recompute::kFull, 12},
                    {Recompute::kSelective, 1},
                    {Recompute::kOperators,
                     3,
                     {LayerOperator::kNorm},
                     {LayerOperator::kQkv, LayerOperator::kFc1},
                     {LayerOperator::kAttention}},
                    {Recompute::kNone, 0}};
  plan.partition_activations = true;
  plan.delayed_update = true;
  plan.dropout = true;
  plan.schedule = Schedule::kGpipe;
  plan.stage_layers = {1, 2, 3};
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = {DType::kBf16,
                    DType::kF16,
                    DType::kF64,
                    DType::kF32,
                    true,
                    true,
                    GradientCast::kAfterReduction};
  plan.batch = {.global_batch = 1 << 20, .micro_batch = 3, .sequence = 1 << 20};
  plan.order = RankOrder::kPipelineFirst;
  plan.gpus = {12, 0, 4};
  plan.slack = 0.125;
  plan.clip = false;
  plan.loss_scaling = true;
  return plan;
}

std::string refusal(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  try {
    plan_from_json(text.replace(at, from.size(), to), "p.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST(PlanJson, KeepsEveryField) {
  Plan usual;
  usual.model = "gpt2";
  usual.hardware = "dgx2";
  for (const Plan& plan : {usual, unusual_plan()})
    EXPECT_EQ(plan_from_json(to_json(plan), "p.json"), plan);
}

TEST(PlanJson, WritesAndReadsScheduleAndLaunch) {
  const std::string text = to_json(unusual_plan());
  EXPECT_THAT(text, HasSubstr("\"schedule\": \"gpipe\""));
  EXPECT_THAT(text, HasSubstr("\"launch\": \"stream\""));
  EXPECT_THAT(refusal(text, "gpipe", "zb-2p"), HasSubstr("/parallel/schedule"));
  EXPECT_THAT(refusal(text, "stream", "streams"), HasSubstr("/launch"));
}

TEST(PlanJson, WritesEveryUnitAsAWord) {
  Plan plan = unusual_plan();
  for (const auto& [gather, word] : {std::pair{Gather::kOperator, "operator"},
                                     {Gather::kLayer, "layer"},
                                     {Gather::of_layers(3), "layers:3"},
                                     {Gather::in_tiles(16), "tiles:16"},
                                     {Gather::kOwned, "owned"}}) {
    plan.gather = gather;
    const std::string text = to_json(plan);
    EXPECT_THAT(text, HasSubstr("\"unit\": \"" + std::string(word) + "\""));
    EXPECT_EQ(plan_from_json(text, "p.json"), plan);
  }
}

// Each in words that the refusal gives.
TEST(PlanJson, RefusesTheFormerFieldsOfAUnit) {
  const std::string text = to_json(unusual_plan());
  const auto written = [&](const std::string& unit, const std::string& further) {
    return refusal(text, "\"unit\": \"layers:16\"", "\"unit\": \"" + unit + "\", " + further);
  };
  const std::string plain = R"("layers": 1, "owners": false, "tiles": 1)";
  EXPECT_THAT(written("layer", plain), HasSubstr(R"(/gather: layers, owners and tiles are part)"));
  EXPECT_THAT(written("layer", plain), HasSubstr(R"(write "unit": "layer" in their place)"));
  EXPECT_THAT(written("operator", plain), HasSubstr(R"("unit": "operator" in their place)"));
  EXPECT_THAT(written("layer", R"("layers": 4)"),
              HasSubstr(R"("unit": "layers:4" in their place)"));
  EXPECT_THAT(written("operator", R"("tiles": 8)"),
              HasSubstr(R"("unit": "tiles:8" in their place)"));
  EXPECT_THAT(written("layer", R"("layers": 4, "owners": true)"),
              HasSubstr(R"("unit": "owned" in their place)"));
}

TEST(PlanJson, RefusesSizesBeyondTheLimits) {
  const std::string text = to_json(unusual_plan());
  EXPECT_THAT(refusal(text, "\"dp\": 1048576", "\"dp\": 1048577"), HasSubstr("/parallel/dp"));
  EXPECT_THAT(refusal(text, "\"pp\": 255", "\"pp\": 256"), HasSubstr("/parallel/pp"));
  EXPECT_THAT(refusal(text, "\"prefetch\": 64", "\"prefetch\": 65"),
              HasSubstr("/gather/prefetch: expected an integer from 0 to 64"));
  EXPECT_THAT(refusal(text, "layers:16", "layers:17"),
              HasSubstr("/gather/unit: expected operator"));
  EXPECT_THAT(refusal(text, "\"micro_batch\": 3", "\"micro_batch\": 1000000000"),
              HasSubstr("/batch/micro_batch: expected an integer from 1 to 1048576"));
  EXPECT_THAT(refusal(text, "\"sequence\": 1048576", "\"sequence\": 1048577"),
              HasSubstr("/batch/sequence"));
}

}  // namespace
}  // namespace zplan
