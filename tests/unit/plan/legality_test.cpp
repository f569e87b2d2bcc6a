#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/limits.h"
#include "planner/plan/plan.h"

namespace zplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

Plan legal_plan(const std::string& kernel_set = "cpu.f32") {
  Plan plan;
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(kernel_set);
  plan.loss_scaling = kernel_set == "cuda.sm70.fp16";
  plan.batch = {.global_batch = 8, .micro_batch = 2, .sequence = 32};
  return plan;
}

auto says(const char* a, const char* b = "") { return Optional(AllOf(HasSubstr(a), HasSubstr(b))); }

TEST(Legality, OnlyGpusLaunchGraphs) {
  Plan plan = legal_plan("cpu.f32");
  plan.launch = LaunchMode::kGraph;
  EXPECT_THAT(illegal(plan, kLayers), says("cpu.f32 knows no graphs"));
  plan = legal_plan("cuda.sm70.fp16");
  plan.launch = LaunchMode::kGraph;
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
}

TEST(Legality, DefaultRecipesAreLegal) {
  for (const char* set : {"cpu.f64", "cpu.f32", "cuda.sm70.fp16", "cuda.sm80.bf16"})
    EXPECT_EQ(illegal(legal_plan(set), kLayers), std::nullopt) << set;
}

TEST(Legality, SizesAreLimited) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    change(plan);
    return illegal(plan, kLayers);
  };
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.dp = 0; }), says("dp 0", "1..1048576"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.dp = (1 << 20) + 1; }), says("dp 1048577"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.pp = 256; }), says("pp 256", "1..255"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.pp = 5; }), says("pp 5", "4 layers"));
  EXPECT_THAT(refusal([](Plan& p) { p.prefetch = 65; }), says("prefetch depth 65", "0..64"));
  EXPECT_THAT(refusal([](Plan& p) { p.slack = -0.1; }), says("slack"));
  EXPECT_THAT(refusal([](Plan& p) { p.batch.global_batch = kHuge; }), says("global batch 9"));
  EXPECT_THAT(refusal([](Plan& p) { p.batch.micro_batch = kHuge; }), says("micro-batch 9"));
  EXPECT_THAT(refusal([](Plan& p) { p.batch.sequence = kHuge; }), says("sequence 9"));
  EXPECT_THAT(illegal(legal_plan(), kMaxLayers + 1), says("layers 65536"));
}

TEST(Legality, TokensPerStepAreLimited) {
  Plan plan = legal_plan();
  plan.batch = {.global_batch = 4096, .micro_batch = 4096, .sequence = kMaxSequence};
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.batch = {.global_batch = 4097, .micro_batch = 1, .sequence = kMaxSequence};
  EXPECT_THAT(illegal(plan, kLayers), says("tokens per step", "4096 fits"));
}

TEST(Legality, MicroStepsAreLimited) {
  Plan plan = legal_plan();
  plan.batch = {.global_batch = kMaxMicroSteps, .micro_batch = 1, .sequence = 1};
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.batch.global_batch *= 2;
  EXPECT_THAT(illegal(plan, kLayers), says("131072 micro-steps", "up to 65536"));
  plan.parallel.pp = 64;
  plan.batch.global_batch = 32768;
  EXPECT_THAT(illegal(plan, 64), says("32768 micro-steps", "up to 16384"));
}

TEST(Legality, NamesTheNearestBatch) {
  Plan plan = legal_plan();
  plan.batch.global_batch = 7;
  EXPECT_THAT(illegal(plan, kLayers), says("no multiple", "nearest that is: 8"));
  plan.batch = {.global_batch = 1, .micro_batch = 4, .sequence = 1};
  EXPECT_THAT(illegal(plan, kLayers), says("nearest that is: 4"));
}

TEST(Legality, StatesHaveTypesTheKernelsKnow) {
  Plan plan = legal_plan("cpu.f32");
  plan.precision.moments = DType::kBf16;
  EXPECT_THAT(illegal(plan, kLayers), says("cpu.f32 keeps moments in f32", "not bf16"));
  plan = legal_plan("cpu.f32");
  plan.precision.separate_master = true;
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.precision.master = DType::kF64;
  EXPECT_THAT(illegal(plan, kLayers), says("the master copy in f32", "not f64"));
  plan = legal_plan("cuda.sm80.bf16");
  plan.precision.moments = DType::kBf16;
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.precision.moments = DType::kF16;
  EXPECT_THAT(illegal(plan, kLayers), says("bf16 or f32", "not f16"));
  plan = legal_plan("cuda.sm70.fp16");
  plan.precision.moments = DType::kF16;
  EXPECT_THAT(illegal(plan, kLayers), says("moments in f16", "use f32"));
  plan = legal_plan("cuda.sm80.bf16");
  plan.precision.grad = DType::kF32;
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.precision.param = DType::kF16;
  EXPECT_THAT(illegal(plan, kLayers), says("parameters in f16 do not match"));
}

TEST(Legality, SinksDoNotStandBesideScoresThatAreDropped) {
  const ModelShape with_sinks = shape_of(load_model("tiny-oss"));
  Plan plan = legal_plan("cpu.f32");
  plan.batch = {.global_batch = 8, .micro_batch = 2, .sequence = 32};
  plan.recompute = {{Recompute::kSelective, 0}};
  EXPECT_EQ(illegal(plan, with_sinks), std::nullopt) << "nothing is dropped";
  plan.kernel_set = "cpu.f32.unfused";
  EXPECT_THAT(illegal(plan, with_sinks), says("sinks stand beside scores", "take recompute none"));
  EXPECT_EQ(illegal(plan, shape_of(load_model("tiny-gemma"))), std::nullopt);
  plan.recompute = {{Recompute::kFull, 0}};
  EXPECT_EQ(illegal(plan, with_sinks), std::nullopt);
}

TEST(Legality, RingsMergeBlocksOfPlainScores) {
  Plan plan = legal_plan("cpu.f32");
  plan.batch = {.global_batch = 8, .micro_batch = 2, .sequence = 32};
  plan.parallel.cp = plan.parallel.ring = 2;
  for (const char* model : {"tiny-oss", "tiny-gemma", "tiny-bloom", "tiny-bert"})
    EXPECT_THAT(illegal(plan, shape_of(load_model(model))),
                says("a ring merges blocks of plain scores", "need ring 1, not 2"))
        << model;
  EXPECT_EQ(illegal(plan, shape_of(load_model("tiny-neox"))), std::nullopt);
  plan.parallel.ring = 1;
  EXPECT_EQ(illegal(plan, shape_of(load_model("tiny-oss"))), std::nullopt);
}

TEST(Legality, DropoutNeedsItsKernels) {
  Plan plan = legal_plan("cuda.sm80.bf16");
  plan.dropout = true;
  EXPECT_THAT(illegal(plan, kLayers), says("cuda.sm80.bf16 has no dropout"));
  plan.kernel_set = "cuda.sm80.bf16.unfused";
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
}

TEST(Legality, CastsNeedWhatIsCast) {
  Plan plan = legal_plan("cuda.sm80.bf16");
  plan.precision = *find_recipe("fsdp", plan.kernel_set);
  EXPECT_THAT(illegal(plan, kLayers), says("parameters in f32", "ZeRO stage 3, not 0"));
  plan.zero_stage = 3;
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.precision.grad = DType::kBf16;
  EXPECT_THAT(illegal(plan, kLayers), says("gradients in bf16", "nothing to cast"));
  plan.precision = *find_recipe("fp32-gradients", plan.kernel_set);
  plan.precision.grad_cast = GradientCast::kAfterReduction;
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.zero_stage = 1;
  EXPECT_THAT(illegal(plan, kLayers), says("cast to f32", "stage 2 or 3, not 1"));
}

TEST(Legality, CountsOfPlanAndModelTogetherStayIn64Bits) {
  const ModelShape wide{.layers = 8, .hidden = 1 << 20, .ffn = 1 << 22, .vocab = 1 << 16};
  EXPECT_EQ(illegal(legal_plan(), wide), std::nullopt);
  Plan plan = legal_plan();
  plan.batch = {.global_batch = 4096, .micro_batch = 4096, .sequence = kMaxSequence};
  EXPECT_EQ(illegal(plan, wide.layers), std::nullopt);
  EXPECT_THAT(illegal(plan, wide), says("flop", "can be counted"));

  const ModelShape trillion{.layers = 128, .hidden = 25600, .ffn = 102400, .vocab = 50257};
  plan = legal_plan();
  plan.parallel.dp = 1 << 20;
  plan.batch = {.global_batch = 1 << 20, .micro_batch = 1, .sequence = 1024};
  EXPECT_THAT(illegal(plan, trillion), says("dp 1048576 x tp 1 x pp 1", "can be counted"));
}

TEST(Legality, AllowsWhatIsTrained) {
  Plan plan = legal_plan("cuda.sm90.bf16");
  const ModelConfig model = load_model("1T");
  plan.batch = {.global_batch = 2560, .micro_batch = 1, .sequence = 1024};
  plan.parallel.dp = 5;
  plan.parallel.pp = 64;
  EXPECT_EQ(illegal(plan, shape_of(model)), std::nullopt);
  const ModelConfig llama = load_model("llama3-70b");
  plan.batch = {.global_batch = 16384, .micro_batch = 1, .sequence = 131072};
  plan.parallel.dp = 512;
  plan.parallel.tp = 8;
  plan.parallel.pp = 16;
  plan.parallel.sequence_parallel = true;
  EXPECT_EQ(illegal(plan, shape_of(llama)), std::nullopt);
}

TEST(Legality, SequencesFitTheLearnedPositions) {
  Plan plan = legal_plan();
  plan.batch.sequence = 33;
  EXPECT_THAT(illegal(plan, shape_of(load_model("tiny-gpt"))), says("32 positions"));
  EXPECT_EQ(illegal(plan, shape_of(load_model("tiny-llama"))), std::nullopt);
}

TEST(Legality, RanksAndTilesCutEqualPieces) {
  const ModelShape llama = shape_of(load_model("tiny-llama"));  // 4 heads, 2 of keys and values
  Plan plan = legal_plan();
  plan.parallel.tp = 2;
  EXPECT_EQ(illegal(plan, llama), std::nullopt);
  plan.gather = Gather::in_tiles(2);
  EXPECT_THAT(illegal(plan, llama), says("2 key-value heads", "tp 2 x 2 tiles"));
  plan.parallel.tp = 3;
  plan.gather = Gather::kOperator;
  EXPECT_THAT(illegal(plan, llama), says("4 attention heads", "tp 3"));
  plan.parallel.tp = 1;
  plan.gather = Gather::in_tiles(17);
  EXPECT_THAT(illegal(plan, llama), says("tiles 17 is outside 1..16"));
}

TEST(Legality, UnitsOfSeveralLayersCutNothing) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    plan.gather = Gather::of_layers(2);
    change(plan);
    return illegal(plan, 8);
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_EQ(refusal([](Plan& p) { p.parallel.pp = 4; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.gather = Gather::of_layers(17); }), says("outside 1..16"));
  EXPECT_THAT(refusal([](Plan& p) { p.gather = Gather::of_layers(0); }), says("outside 1..16"));
  EXPECT_THAT(refusal([](Plan& p) { p.gather = Gather::of_layers(3); }),
              says("the 8 layers of stage 0 are no multiple of the 3 gathered together",
                   "the nearest that works: 2"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.parallel.pp = 2;
                p.stage_layers = {6, 2};
                p.gather = Gather::of_layers(4);
              }),
              says("the 6 layers of stage 0 are no multiple of the 4"));
  EXPECT_EQ(refusal([](Plan& p) {
              p.recompute = {{Recompute::kFull, 2}, {Recompute::kNone, 0}};
            }),
            std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) {
                p.recompute = {{Recompute::kFull, 3}, {Recompute::kNone, 0}};
              }),
              says("recompute of 3 layers cuts units of 2"));
}

TEST(Legality, LayersWithOneCheckpointCutNothing) {
  const auto refusal = [](std::int32_t together, auto change) {
    Plan plan = legal_plan();
    plan.recompute = {{Recompute::kFull}};
    plan.checkpoint_layers = together;
    change(plan);
    return illegal(plan, 12);
  };
  for (const std::int32_t together : {1, 2, 3, 4, 6, 12})
    EXPECT_EQ(refusal(together, [](Plan&) {}), std::nullopt) << together;
  EXPECT_THAT(refusal(17, [](Plan&) {}), says("17 is outside 1..16"));
  EXPECT_THAT(refusal(0, [](Plan&) {}), says("0 is outside 1..16"));
  EXPECT_THAT(refusal(5, [](Plan&) {}),
              says("5 layers do not divide the 12 of stage 0", "the nearest that do: 4"));
  EXPECT_THAT(refusal(6,
                      [](Plan& p) {
                        p.parallel.pp = 3;
                        p.stage_layers = {6, 2, 4};
                      }),
              says("the 2 of stage 1; the nearest that do: 2"));
  EXPECT_THAT(refusal(3,
                      [](Plan& p) {
                        p.parallel.pp = 3;
                        p.schedule = Schedule::kInterleaved;
                      }),
              says("the 2 of piece 0; the nearest that do: 2"));
  EXPECT_THAT(refusal(2,
                      [](Plan& p) {
                        p.recompute = {{Recompute::kFull, 6}, {}};
                      }),
              says("checkpoints of 2 layers need recompute full of all layers"));
  EXPECT_EQ(refusal(2, [](Plan& p) { p.gather = Gather::of_layers(4); }), std::nullopt);
  EXPECT_EQ(refusal(6, [](Plan& p) { p.gather = Gather::of_layers(2); }), std::nullopt);
  EXPECT_THAT(refusal(6, [](Plan& p) { p.gather = Gather::of_layers(4); }),
              says("cut units of 4; the nearest that do not: 4"));
  EXPECT_THAT(refusal(4,
                      [](Plan& p) {
                        p.zero_stage = 3;
                        p.parallel.dp = 2;
                        p.gather = Gather::kOwned;
                      }),
              says("cut units of 2 with an owner each; the nearest that do not: 2"));
  EXPECT_THAT(refusal(2,
                      [](Plan& p) {
                        p.parallel.pp = 2;
                        p.schedule = Schedule::kZeroBubbleH1;
                      }),
              says("recompute none or selective"));
}

TEST(Legality, EachRankOwnsALayerOfAUnit) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    plan.zero_stage = 3;
    plan.parallel.dp = 2;
    plan.gather = Gather::kOwned;
    change(plan);
    return illegal(plan, 8);
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.zero_stage = 2; }), says("ZeRO stage 3 only, not 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.tp = 2; }), says("it needs tp 1, not 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.dp = 1; }), says("1 is outside 2..16"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.shards = 1; }), says("sharding groups of 1"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.pp = p.parallel.dp = 4; }),
              says("the 2 layers of stage 0 are no multiple of the 4"));
}

TEST(Legality, SecondaryGroupsCutThoseThatShareACopyIntoSeveral) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    plan.zero_stage = 3;
    plan.parallel.dp = 8;
    plan.batch.global_batch = 8 * plan.batch.micro_batch;
    plan.secondary = 2;
    change(plan);
    return illegal(plan, 8);
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_EQ(refusal([](Plan& p) { p.secondary = 4; }), std::nullopt);
  EXPECT_EQ(refusal([](Plan& p) { p.parallel.shards = 4; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.zero_stage = 2; }), says("they need ZeRO stage 3, not 2"));
  for (const std::int32_t n : {-2, 1, 3, 8, 16})
    EXPECT_THAT(refusal([n](Plan& p) { p.secondary = n; }),
                says("do not cut the 8 ranks that share a copy into several"))
        << n;
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.shards = 2; }), says("cut the 2 ranks"));
  EXPECT_THAT(refusal([](Plan& p) { p.gather = Gather::kOwned; }),
              says("is not sharded: no secondary shards"));
}

TEST(Legality, ParametersAreSharedByPartOfThoseThatShareTheStates) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    plan.zero_stage = 3;
    plan.parallel.dp = 8;
    plan.batch.global_batch = 8 * plan.batch.micro_batch;
    plan.parameter_shards = 4;
    change(plan);
    return illegal(plan, 8);
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_EQ(refusal([](Plan& p) { p.secondary = 2; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.secondary = 4; }),
              says("secondary shards in groups of 4", "cut the 4 ranks"));
  EXPECT_THAT(refusal([](Plan& p) { p.zero_stage = 2; }), says("they need ZeRO stage 3, not 2"));
  for (const std::int32_t n : {-2, 1, 3, 8, 16})
    EXPECT_THAT(refusal([n](Plan& p) { p.parameter_shards = n; }),
                says("parameter shards in groups of", "do not cut the 8 ranks"))
        << n;
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.shards = 4; }), says("cut the 4 ranks"));
  EXPECT_THAT(refusal([](Plan& p) { p.placement.params = p.placement.optimizer = Tier::kCpu; }),
              says("gathered where they are, on the gpu, not on cpu"));
}

TEST(Legality, RingsBalanceSequencesOnKernelsThatMerge) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    plan.parallel.cp = 4;
    plan.parallel.ring = 2;
    change(plan);
    return illegal(plan, shape_of(load_model("tiny-llama")));
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_EQ(refusal([](Plan& p) { p.parallel.ring = 4; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.ring = 0; }), says("ring 0 is outside 1..256"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.ring = 3; }),
              says("rings of 3 do not divide cp 4; the nearest cp that they do: 3"));
  EXPECT_THAT(refusal([](Plan& p) { p.batch.sequence = 28; }),
              says("sequence 28 does not balance over cp 4 with rings, which take 2 equal "
                   "stretches for each rank; the nearest that does: "));
  EXPECT_THAT(refusal([](Plan& p) { p.kernel_set = "cpu.f32.unfused"; }),
              says("kernel set cpu.f32.unfused does not store: it needs fused attention"));
  EXPECT_THAT(refusal([](Plan& p) { p.gather = Gather::in_tiles(2); }),
              says("it needs 1 tile, not 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.tp = 2; }),
              says("2 key-value heads do not split over tp 2 x cp 4 / ring 2"));
}

TEST(Legality, ContextParallelRanksHaveEqualPartsOfTokensHeadsAndStates) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    plan.zero_stage = 3;
    plan.parallel.cp = 2;
    plan.parallel.dp = 2;
    change(plan);
    return illegal(plan, shape_of(load_model("tiny-llama")));
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.cp = 0; }), says("cp 0 is outside 1..1048576"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.cp = 1 << 20; }), says("dp x cp 2097152"));
  EXPECT_THAT(refusal([](Plan& p) { p.batch.sequence = 31; }),
              says("sequence 31 does not split over cp 2; the nearest that does: 3"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.cp = 4; }),
              says("2 key-value heads do not split over tp 1 x cp 4; with rings of 2 they do"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.tp = 2; }),
              says("2 key-value heads do not split over tp 2 x cp 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.gather = Gather::in_tiles(2); }),
              says("over tp 1 x cp 2 x 2 tiles"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.shards = 1; }),
              says("shards in groups of 1 cut the 2 ranks of a sequence", "a multiple of cp"));
  EXPECT_EQ(refusal([](Plan& p) { p.parallel.shards = 2; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.shards = 6; }), says("do not divide dp 2 x cp 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.secondary = 3; }), says("secondary shards in groups of 3"));
  EXPECT_EQ(refusal([](Plan& p) { p.secondary = 2; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parameter_shards = 3; }),
              says("parameter shards in groups of 3"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.parallel.tp = 4;
                p.parallel.sequence_parallel = true;
                p.batch = {.global_batch = 2, .micro_batch = 1, .sequence = 36};
              }),
              says("micro-batch 1 x sequence 36 does not split over tp 4 x cp 2"));
}

TEST(Legality, ShardingNeedsRanksToShareIt) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    change(plan);
    return illegal(plan, kLayers);
  };
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.sequence_parallel = true; }), says("tp > 1"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.parallel.dp = 4;
                p.parallel.shards = 3;
              }),
              says("do not divide dp 4"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.parallel.dp = 4;
                p.parallel.shards = 2;
              }),
              says("ZeRO 0 shards nothing"));
  EXPECT_THAT(refusal([](Plan& p) { p.partition_activations = true; }), says("tp > 1"));
  EXPECT_THAT(refusal([](Plan& p) { p.delayed_update = true; }), says("optimizer on cpu or nvme"));
}

TEST(Legality, ANearerHomeOfSomeOptimizerStatesNeedsAFartherOneOfTheOthers) {
  const auto refusal = [](Tier optimizer, double near, auto change) {
    Plan plan = legal_plan();
    plan.placement.optimizer = optimizer;
    plan.placement.optimizer_near = near;
    change(plan);
    return illegal(plan, kLayers);
  };
  const auto as_it_is = [](Plan&) {};
  for (const Tier tier : {Tier::kCpu, Tier::kNvme})
    for (const double near : {0.0, 0.3, 1.0})
      EXPECT_EQ(refusal(tier, near, as_it_is), std::nullopt) << near;
  EXPECT_THAT(refusal(Tier::kGpu, 0.5, as_it_is),
              says("nothing is nearer than gpu", "cpu or nvme"));
  for (const double near : {-0.1, 1.1, std::nan("")})
    EXPECT_THAT(refusal(Tier::kCpu, near, as_it_is), says("outside 0..1"));
  const auto delayed = [](Plan& p) { p.delayed_update = true; };
  EXPECT_EQ(refusal(Tier::kNvme, 0.5, delayed), std::nullopt);
  EXPECT_THAT(refusal(Tier::kCpu, 0.5, delayed), says("with the optimizer on nvme", "not 0.5"));
  const auto beside = [](Plan& p) {
    p.overlap.optimizer = true;
    p.clip = p.loss_scaling = false;
  };
  for (const Tier tier : {Tier::kCpu, Tier::kNvme})
    EXPECT_EQ(refusal(tier, 0.5, beside), std::nullopt);
  const auto copies = [](Plan& p) {
    p.kernel_set = "cpu.bf16";
    p.precision = *find_recipe("main-gradients", p.kernel_set);
    p.loss_scaling = false;
  };
  EXPECT_EQ(refusal(Tier::kNvme, 0.5, copies), std::nullopt);
  EXPECT_THAT(refusal(Tier::kCpu, 0.5, copies), says("not 0.5", "fp32-gradients"));
}

TEST(Legality, NearerParametersAndGradientsLeaveSomeFarther) {
  for (const bool grads : {false, true}) {
    const auto refusal = [&](Tier home, double near) {
      Plan plan = legal_plan();
      plan.zero_stage = 3;
      plan.placement = {home, home, home == Tier::kGpu ? Tier::kCpu : home};
      (grads ? plan.placement.grads_near : plan.placement.params_near) = near;
      return illegal(plan, kLayers);
    };
    for (const Tier tier : {Tier::kCpu, Tier::kNvme})
      for (const double near : {0.0, 0.3, 0.999}) EXPECT_EQ(refusal(tier, near), std::nullopt);
    EXPECT_THAT(refusal(Tier::kGpu, 0.5), says("nothing is nearer than gpu", "cpu or nvme"));
    EXPECT_THAT(refusal(Tier::kCpu, 1), says("leaves none for cpu", "home gpu has them all"));
    EXPECT_THAT(refusal(Tier::kNvme, 1), says("leaves none for nvme", "home cpu has them all"));
    for (const double near : {-0.1, 1.1, std::nan("")})
      EXPECT_THAT(refusal(Tier::kCpu, near), says("outside 0..1"));
  }
}

TEST(Legality, LayersAreUpdatedBesideBackwardWhereNothingAsksForAllGradientsFirst) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    plan.overlap.optimizer = true;
    plan.placement.optimizer = Tier::kCpu;
    plan.clip = plan.loss_scaling = false;
    change(plan);
    return illegal(plan, kLayers);
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_EQ(refusal([](Plan& p) { p.placement.optimizer = Tier::kNvme; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.placement.optimizer = Tier::kGpu; }),
              says("beside backward on the host: this needs the optimizer on cpu or nvme"));
  EXPECT_THAT(refusal([](Plan& p) { p.clip = true; }), says("without clipping only"));
  EXPECT_THAT(refusal([](Plan& p) { p.delayed_update = true; }), says("one of the two"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.kernel_set = "cpu.fp16";
                p.precision = default_recipe(p.kernel_set);
                p.loss_scaling = true;
              }),
              says("kernel set cpu.fp16 updates no layer beside backward", "or without scaling"));
  EXPECT_EQ(refusal([](Plan& p) {
              p.kernel_set = "cpu.fp16";
              p.precision = default_recipe(p.kernel_set);
            }),
            std::nullopt);
  for (int stage = 0; stage <= 3; ++stage) {
    const auto apart = refusal([=](Plan& p) {
      p.zero_stage = stage;
      p.parallel.dp = 2;
      p.batch.global_batch = 2 * p.batch.micro_batch;
      p.overlap.gradients = false;
    });
    if (stage < 2) {
      EXPECT_THAT(apart, says("reduced after the last backward"));
    } else {
      EXPECT_EQ(apart, std::nullopt);
    }
  }
}

TEST(Legality, RecomputeAndStagesCoverTheLayers) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    change(plan);
    return illegal(plan, kLayers);
  };
  EXPECT_EQ(refusal([](Plan& p) {
              p.recompute = {{Recompute::kFull, 3}, {Recompute::kNone, 0}};
            }),
            std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.recompute = {{Recompute::kFull, 3}}; }), says("3 of 4"));
  EXPECT_THAT(refusal([](Plan& p) { p.recompute = {}; }), says("0 of 4"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.recompute = {{Recompute::kFull, 4}, {Recompute::kNone, 0}};
              }),
              says("recompute of 4 layers leaves none"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.parallel.pp = 2;
                p.stage_layers = {1, 2};
              }),
              says("1, 2 have 3 layers"));
  EXPECT_THAT(refusal([](Plan& p) { p.stage_layers = {2, 2}; }), says("2 stages", "pp is 1"));
  EXPECT_THAT(refusal([](Plan& p) { p.gpus = {0, 4, 0}; }), says("0 is named twice"));
}

TEST(Legality, PiecesOfTheHeadAreEqual) {
  Plan plan = legal_plan();
  plan.batch = {.global_batch = 9, .micro_batch = 3, .sequence = 32};
  plan.head_chunks = 6;  // halves of sequences
  EXPECT_EQ(illegal(plan, kLayers), std::nullopt);
  plan.head_chunks = 4;
  EXPECT_THAT(illegal(plan, kLayers), says("4 equal pieces"));
}

TEST(Plan, LayersThatAreLeftOverGoToTheFirstPieces) {
  Plan plan = legal_plan();
  plan.parallel.pp = 4;
  std::vector<std::int32_t> layers;
  for (std::int32_t piece = 0; piece < 4; ++piece)
    layers.push_back(plan.layers_of_piece(10, piece));
  EXPECT_EQ(layers, (std::vector<std::int32_t>{3, 3, 2, 2}));
}

TEST(StatePlacement, NearerUnitsAreThoseThatFitWhollyAndNeverAll) {
  StatePlacement homes;
  homes.optimizer = Tier::kCpu;
  const auto near = [&](double share, std::int32_t units) {
    homes.optimizer_near = share;
    return homes.near_units(ModelState::kOptimizer, units);
  };
  EXPECT_EQ(near(0.7, 4), 2);
  EXPECT_EQ(near(0.29, 100), 29);
  EXPECT_EQ(near(1 - 1e-12, 4), 3);
  EXPECT_EQ(near(1, 4), 4);
}

TEST(Legality, StatesGoWhereTheirStageAllows) {
  const auto refusal = [](auto change) {
    Plan plan = legal_plan();
    change(plan);
    return illegal(plan, kLayers);
  };
  EXPECT_THAT(refusal([](Plan& p) { p.placement.params = Tier::kNvme; }), says("nvme", "stage 3"));
  EXPECT_THAT(refusal([](Plan& p) { p.placement.grads = p.placement.optimizer = Tier::kNvme; }),
              says("stage 2 or 3"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.parallel.dp = 2;
                p.zero_stage = 1;
                p.placement.grads = p.placement.optimizer = Tier::kCpu;
              }),
              says("stage 2 or 3, not 1"));
  EXPECT_THAT(refusal([](Plan& p) { p.placement.grads = Tier::kNvme; }),
              says("need the optimizer on cpu or nvme"));
  EXPECT_EQ(refusal([](Plan& p) { p.placement.activations = Tier::kNvme; }), std::nullopt);
}

TEST(Recipes, TakeTheBytesTheyAreNamedFor) {
  EXPECT_EQ(find_recipe("standard", "cpu.f32"), default_recipe("cpu.f32"));
  EXPECT_EQ(find_recipe("lean", "cpu.f32"), std::nullopt);
  EXPECT_EQ(find_recipe("lean", "cpu.fp16"), std::nullopt);
  EXPECT_EQ(find_recipe("no such", "cpu.bf16"), std::nullopt);
  Plan plan = legal_plan("cuda.sm80.bf16");
  const std::int64_t bytes[] = {16, 18, 20, 8, 16, 16, 18, 18};
  for (std::size_t i = 0; i < std::size(kRecipeNames); ++i) {
    const std::string_view recipe = kRecipeNames[i];
    plan.precision = *find_recipe(recipe, plan.kernel_set);
    const bool casts = plan.precision.grad_cast != GradientCast::kNone;
    plan.zero_stage = plan.casts_params() ? 3 : casts ? 2 : 0;
    EXPECT_EQ(illegal(plan, kLayers), std::nullopt) << recipe;
    EXPECT_EQ(plan.state_bytes().value, bytes[i]) << recipe;
    EXPECT_EQ(recipe_index(plan), i);
    EXPECT_EQ(recipe_name(i), recipe);
  }
  plan.precision = *find_recipe("lean", plan.kernel_set);
  plan.placement.optimizer = Tier::kCpu;
  EXPECT_EQ(plan.state_bytes().value, 10) << "an optimizer away from the parameters has a copy";
  plan.precision.moments = DType::kF32;
  EXPECT_EQ(recipe_name(recipe_index(plan)), "custom");
}

TEST(Legality, StagesThatUpdateByThemselvesShareNoEmbedding) {
  Plan plan = legal_plan();
  plan.schedule = Schedule::kWeightStashing;
  plan.parallel.pp = 2;
  plan.clip = false;
  EXPECT_EQ(illegal(plan, shape_of(load_model("tiny-llama"))), std::nullopt);
  EXPECT_THAT(illegal(plan, shape_of(load_model("tiny-gpt"))),
              says("schedule pipedream updates each stage by itself", "1f1b take this model"));
  plan.parallel = {.chunks = 2};
  EXPECT_THAT(illegal(plan, shape_of(load_model("tiny-gpt"))), says("the output head too"));
  EXPECT_THAT(illegal(plan, shape_of(load_model("tiny-moe"))), says("models without experts"));
}

Plan with_experts() {
  Plan plan = legal_plan();
  plan.parallel.dp = 4;
  return plan;
}

TEST(Legality, ExpertGroupsDivideReplicasAndExperts) {
  const ModelShape moe = shape_of(load_model("tiny-moe"));  // 4 experts
  const auto refusal = [&](auto change) {
    Plan plan = with_experts();
    change(plan);
    return illegal(plan, moe);
  };
  EXPECT_EQ(refusal([](Plan& p) { p.parallel.ep = 4; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.ep = 3; }),
              says("4 experts do not split over ep 3", "the nearest that does: 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.ep = 4, p.parallel.dp = 2; }),
              says("ep 4 does not divide dp 2", "the nearest that does: 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.ep = 0; }), says("ep", "0"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.ep = 2, p.parallel.shards = 2, p.zero_stage = 1; }),
              says("needs no groups of shards"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.parallel.ep = 2, p.zero_stage = 3, p.gather = Gather::of_layers(2);
              }),
              says("experts over ep 2 are gathered by layer", "not 2 layers"));
  EXPECT_THAT(refusal([](Plan& p) { p.zero_stage = 3, p.gather = Gather::in_tiles(2); }),
              says("experts are gathered whole", "1 tile, not 2"));
}

TEST(Legality, ExpertsAndWhatStandsBesideThemMayBeFrozen) {
  const ModelShape moe = shape_of(load_model("tiny-moe"));
  for (const Trained what : {Trained::kLayers, Trained::kLora}) {
    Plan plan = with_experts();
    plan.train.what = what;
    plan.parallel.ep = plan.parallel.tp = 2;
    EXPECT_EQ(illegal(plan, moe), std::nullopt) << name(what);
  }
  Plan plan = with_experts();
  plan.train = {.what = Trained::kLora, .rank = 65};
  EXPECT_THAT(illegal(plan, moe), says("factors of rank 65 are larger", "rank 64 fits"));
}

TEST(Legality, WholeExpertsAreOfAllTensorParallelRanksAndTokensOfTheirOwn) {
  const auto refusal = [](const char* name, auto change) {
    Plan plan = with_experts();
    plan.parallel.tp = 2;
    plan.parallel.ep = 4;
    plan.parallel.expert_tp = 1;
    plan.parallel.sequence_parallel = true;
    change(plan);
    return illegal(plan, shape_of(load_model(name)));
  };
  const auto moe = [&](auto change) { return refusal("tiny-moe", change); };
  EXPECT_EQ(moe([](Plan&) {}), std::nullopt);
  EXPECT_EQ(moe([](Plan& p) { p.parallel.dp = 2; }), std::nullopt);
  EXPECT_EQ(moe([](Plan& p) { p.parallel.expert_tp = 2; }), std::nullopt) << "as tp says";
  EXPECT_EQ(moe([](Plan& p) { p.parallel.dp = p.parallel.ep = 2; }), std::nullopt);
  EXPECT_THAT(moe([](Plan& p) { p.parallel.dp = 1; }),
              says("ep 4 does not divide tp 2 x dp 1; the nearest that does: 2"));
  EXPECT_THAT(moe([](Plan& p) { p.parallel.ep = 1; }),
              says("ep 1 is no multiple of tp 2", "the nearest that is: 2"));
  EXPECT_THAT(moe([](Plan& p) { p.parallel.expert_tp = 4; }), says("4 is neither 1 nor tp 2"));
  EXPECT_THAT(moe([](Plan& p) { p.parallel.expert_tp = -1; }), says("expert_tp", "-1"));
  EXPECT_THAT(moe([](Plan& p) { p.parallel.sequence_parallel = false; }),
              says("it needs sequence parallelism"));
  EXPECT_EQ(moe([](Plan& p) { p.capacity_factor = 1; }), std::nullopt);
  EXPECT_EQ(refusal("tiny-deepseek", [](Plan& p) { p.parallel.ep = 2; }), std::nullopt);
  EXPECT_THAT(refusal("tiny-llama", [](Plan& p) { p.parallel.ep = 1; }),
              says("is of experts; the model has none"));
}

TEST(Legality, RoutersBesideVectorsThatAreCutAreInUnitsOfTheirOwn) {
  ModelShape moe = shape_of(load_model("tiny-moe"));
  Plan plan = with_experts();
  plan.parallel.tp = 2;
  plan.gather = Gather::kLayer;
  EXPECT_EQ(illegal(plan, moe), std::nullopt);
  moe.cuts_vectors = true;
  EXPECT_THAT(illegal(plan, moe), says("tp 2", "gathered by operator, not by layer"));
  plan.gather = Gather::kOperator;
  EXPECT_EQ(illegal(plan, moe), std::nullopt);
}

TEST(Legality, TensorParallelRanksHaveEqualPartsOfTheBiasesOfExperts) {
  ModelShape oss = shape_of(load_model("tiny-gpt-oss"));
  EXPECT_EQ(oss.expert_bias, 64);
  Plan plan = with_experts();
  plan.parallel.tp = 2;
  plan.gather = Gather::kOperator;
  EXPECT_EQ(illegal(plan, oss), std::nullopt);
  oss.expert_bias = 63;
  EXPECT_THAT(illegal(plan, oss), says("63 columns of an expert's bias do not split over tp 2"));
}

TEST(Legality, CapacityAndImbalanceAreOfExpertsAndOfWholeSequences) {
  const ModelShape moe = shape_of(load_model("tiny-moe"));
  const auto refusal = [&](const ModelShape& model, auto change) {
    Plan plan = with_experts();
    change(plan);
    return illegal(plan, model);
  };
  const ModelShape dense = shape_of(load_model("tiny-llama"));
  EXPECT_THAT(refusal(dense, [](Plan& p) { p.parallel.ep = 2; }), says("the model has none"));
  EXPECT_THAT(refusal(dense, [](Plan& p) { p.capacity_factor = 1; }), says("the model has none"));
  EXPECT_THAT(refusal(dense, [](Plan& p) { p.expert_imbalance = 2; }), says("the model has none"));
  const auto gathers = [](Plan& p) { p.dispatcher = Dispatcher::kAllGather; };
  EXPECT_THAT(refusal(dense, gathers), says("dispatcher allgather", "the model has none"));
  EXPECT_THAT(refusal(moe, [&](Plan& p) { gathers(p), p.parallel.ep = 1; }), says("needs ep > 1"));
  EXPECT_EQ(refusal(moe, [&](Plan& p) { gathers(p), p.parallel.dp = p.parallel.ep = 2; }),
            std::nullopt);
  EXPECT_THAT(refusal(moe, [](Plan& p) { p.capacity_factor = -1; }), says("-1", "0..1000"));
  EXPECT_THAT(refusal(moe, [](Plan& p) { p.capacity_factor = std::nan(""); }), says("0..1000"));
  EXPECT_THAT(refusal(moe, [](Plan& p) { p.expert_imbalance = 0.5; }), says("0.5 is below 1"));
  EXPECT_THAT(refusal(moe, [](Plan& p) { p.capacity_factor = 1, p.parallel.cp = 2; }),
              says("of whole sequences", "cp 1, not 2"));
  EXPECT_EQ(refusal(moe, [](Plan& p) { p.parallel.cp = 2; }), std::nullopt);
  const ModelShape balanced = shape_of(load_model("tiny-deepseek"));
  EXPECT_THAT(refusal(balanced, [](Plan& p) { p.parallel.cp = 2; }),
              says("the auxiliary loss of experts"));
  EXPECT_THAT(refusal(balanced, [](Plan& p) { p.zero_stage = 3, p.gather = Gather::of_layers(2); }),
              says("not gathered 2 at a time"));
  const auto delayed = [](Plan& p) {
    p.zero_stage = 1;
    p.placement.optimizer = Tier::kCpu;
    p.delayed_update = true;
  };
  EXPECT_EQ(refusal(moe, delayed), std::nullopt);
  EXPECT_THAT(refusal(balanced, delayed), says("loads of its own step", "no delayed update"));
}

TEST(Legality, TokensAreExchangedBesideAnotherMicroBatchWhereOneIsThere) {
  const ModelShape moe = shape_of(load_model("tiny-moe"));
  const auto refusal = [&](auto change, const ModelShape& model) {
    Plan plan = with_experts();
    plan.parallel.ep = 4;
    plan.batch = {.global_batch = 16, .micro_batch = 1, .sequence = 32};
    plan.overlap.exchange = true;
    change(plan);
    return illegal(plan, model);
  };
  const auto of_moe = [&](auto change) { return refusal(change, moe); };
  EXPECT_EQ(of_moe([](Plan&) {}), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.ep = 1; }, shape_of(load_model("tiny-llama"))),
              says("tokens are exchanged between experts", "the model has none"));
  EXPECT_THAT(of_moe([](Plan& p) { p.parallel.ep = 1; }), says("with ep 1", "ep 2 or more"));
  EXPECT_THAT(of_moe([](Plan& p) { p.batch.global_batch = 4; }), says("2 micro-steps, not 1"));
  EXPECT_THAT(of_moe([](Plan& p) { p.parallel.pp = 2; }), says("interleaved", "not 1f1b"));
  EXPECT_EQ(of_moe([](Plan& p) { p.parallel.pp = 2, p.schedule = Schedule::kInterleaved; }),
            std::nullopt);
  EXPECT_THAT(of_moe([](Plan& p) { p.schedule = Schedule::kGpipe; }), says("1f1b", "not gpipe"));
  EXPECT_THAT(of_moe([](Plan& p) {
                p.recompute = {{Recompute::kFull, 1}, {}};
              }),
              says("recompute none, selective or other operators"));
  EXPECT_THAT(of_moe([](Plan& p) {
                p.recompute = {{Recompute::kOperators, 0, {LayerOperator::kExperts}}};
              }),
              says("a replay of whole layers or of experts exchanges their tokens again"));
  const auto weights = [](Plan& p) { p.overlap = {}, p.overlap.weight_gradients = true; };
  EXPECT_EQ(of_moe(weights), std::nullopt);
  EXPECT_THAT(of_moe([&](Plan& p) { weights(p), p.parallel.ep = 1; }), says("ep 2 or more"));
  const auto shared = [](Plan& p) { p.overlap.shared_expert = false; };
  EXPECT_THAT(of_moe(shared), says("no shared expert"));
  EXPECT_EQ(refusal([&](Plan& p) { shared(p), p.parallel.ep = 2; },
                    shape_of(load_model("tiny-deepseek"))),
            std::nullopt);
}

TEST(Legality, LayersOfAPatternAreCutAnywhereButForStatesAndWhatIsReplayedTogether) {
  const auto refusal = [](const char* model, const auto& change) {
    Plan plan;
    plan.kernel_set = "cpu.f32";
    plan.precision = default_recipe(plan.kernel_set);
    plan.batch = {.global_batch = 12, .micro_batch = 1, .sequence = 32};
    change(plan);
    return illegal(plan, shape_of(load_model(model)));
  };
  for (const char* model : {"tiny-mamba", "tiny-hybrid", "tiny-delta", "tiny-kimi", "tiny-jamba",
                            "tiny-falcon", "tiny-lfm2"}) {
    EXPECT_EQ(refusal(model, [](Plan& p) { p.parallel.pp = 4; }), std::nullopt) << model;
    EXPECT_THAT(refusal(model, [](Plan& p) { p.parallel.cp = 2; }), says("cp 1, not 2")) << model;
    EXPECT_NE(refusal(model, [](Plan& p) { p.gather = Gather::in_tiles(2); }), std::nullopt);
  }
  EXPECT_EQ(refusal("tiny-mamba", [](Plan& p) { p.parallel.tp = 2; }), std::nullopt);
  EXPECT_THAT(refusal("tiny-mamba", [](Plan& p) { p.parallel.tp = 4; }),
              says("2 heads or groups of states do not split over tp 4"));
  EXPECT_THAT(refusal("tiny-hybrid",
                      [](Plan& p) {
                        p.recompute = {{Recompute::kFull, 0}};
                        p.checkpoint_layers = 2;
                        p.parallel.pp = 2;
                      }),
              says("cut turns of 4 layers, the model's pattern"));
}

TEST(Legality, AnIndexerChoosesAmongAllKeysAndStoresNoScores) {
  const ModelShape model = shape_of(load_model("tiny-dsa"));
  Plan plan;
  plan.kernel_set = "cpu.f32.unfused";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 8, .micro_batch = 1, .sequence = 32};
  EXPECT_EQ(illegal(plan, model), std::nullopt);
  plan.recompute = {{Recompute::kSelective, 0}};
  EXPECT_THAT(illegal(plan, model), says("stores no scores"));
  plan.recompute = {{Recompute::kNone, 0}};
  plan.parallel.cp = 2;
  EXPECT_THAT(illegal(plan, model), says("cp 1, not 2"));
}

TEST(Legality, TurnsOfLayersWithExpertsAndWithoutStayTogether) {
  ModelShape switching = shape_of(load_model("tiny-switch"));
  switching.layers = 12;
  const auto refusal = [&](const auto& change) {
    Plan plan;
    plan.kernel_set = "cpu.f32";
    plan.precision = default_recipe(plan.kernel_set);
    plan.batch = {.global_batch = 12, .micro_batch = 1, .sequence = 32};
    change(plan);
    return illegal(plan, switching);
  };
  EXPECT_EQ(refusal([](Plan&) {}), std::nullopt);
  EXPECT_EQ(refusal([](Plan& p) { p.parallel.pp = 3; }), std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.pp = 4; }),
              says("the 3 layers of stage 0 cut turns of 2", "does not: 4"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.recompute = {{Recompute::kFull, 5}, {}};
              }),
              says("recompute of 5 layers cuts turns of 2", "does not: 6"));
  EXPECT_EQ(refusal([](Plan& p) { p.recompute = {{Recompute::kFull, 6}, {}}; }), std::nullopt);
  const auto gathered = [](std::int32_t layers) {
    return [layers](Plan& p) {
      p.zero_stage = 3;
      p.parallel.dp = 2;
      p.gather = Gather::of_layers(layers);
    };
  };
  EXPECT_EQ(refusal(gathered(3)), std::nullopt);
  EXPECT_THAT(
      refusal([&](Plan& p) { gathered(3)(p), p.parallel.pp = 4; }),
      says("the 3 layers of stage 0 cut turns of 6", "12 layers have at most 2 such stages"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.zero_stage = 3;
                p.parallel.dp = 2;
                p.gather = Gather::kOwned;
              }),
              says("no one rank owns one of them"));
}

TEST(Legality, AnEncodersOutputStaysOnItsStage) {
  const ModelShape model = shape_of(load_model("tiny-blender"));
  const auto refusal = [&](auto change) {
    Plan plan = legal_plan();
    change(plan);
    return illegal(plan, model);
  };
  EXPECT_EQ(refusal([](Plan& p) {
              p.parallel.dp = p.parallel.tp = 2, p.parallel.sequence_parallel = true;
              p.zero_stage = 3;
            }),
            std::nullopt);
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.pp = 2; }), says("output needs pp 1, not 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.parallel.cp = 2; }), says("needs cp 1, not 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.schedule = Schedule::kGpipe; }),
              says("needs schedule 1f1b, not gpipe"));
  EXPECT_THAT(refusal([](Plan& p) { p.zero_stage = 3, p.gather = Gather::in_tiles(2); }),
              says("needs tiles 1, not 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.zero_stage = 3, p.gather = Gather::of_layers(2); }),
              says("needs layers per gather unit 1, not 2"));
  EXPECT_THAT(refusal([](Plan& p) {
                p.recompute = {{Recompute::kFull, 0}};
                p.checkpoint_layers = 2;
              }),
              says("needs layers per checkpoint 1, not 2"));
  EXPECT_THAT(refusal([](Plan& p) { p.train.what = Trained::kLora; }),
              says("needs train all, not lora"));
  EXPECT_THAT(refusal([](Plan& p) { p.kernel_set = "cpu.f32.unfused", p.dropout = true; }),
              says("needs dropout off, not on"));
}

// What a refusal names must be legal where nothing else is wrong.
TEST(Legality, ModulesOfMultiTokenPredictionStandOnAStageWithOneEnd) {
  ModelConfig model = load_model("tiny-llama");
  model.mtp_layers = 1;
  const auto check = [&](const Plan& plan) { return illegal(plan, shape_of(model)); };
  Plan plan = legal_plan();
  plan.parallel.pp = 2;
  EXPECT_EQ(check(plan), std::nullopt);
  plan.schedule = Schedule::kZeroBubbleV;
  EXPECT_THAT(check(plan), Optional(HasSubstr("a model with mtp_layers needs schedule 1f1b, gpipe, "
                                              "interleaved or zb-h1, not zb-v")));
  plan = legal_plan();
  plan.dropout = true;
  plan.kernel_set = "cpu.f32.unfused";
  EXPECT_THAT(check(plan), Optional(HasSubstr("mtp_layers needs dropout off, not on")));
  plan = legal_plan();
  plan.zero_stage = 3;
  plan.gather = Gather::in_tiles(2);
  EXPECT_THAT(check(plan), Optional(HasSubstr("mtp_layers needs tiles 1, not 2")));
  plan.gather = Gather::of_layers(2);
  EXPECT_THAT(check(plan), Optional(HasSubstr("needs layers per gather unit 1, not 2")));
}

TEST(Legality, TheNearestSizeThatIsNamedWorks) {
  ModelShape model{.layers = 8, .hidden = 64, .ffn = 96, .vocab = 256, .heads = 12, .kv_heads = 6};
  model.matrix_divisor = model.width_divisor = 96;
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 16, .micro_batch = 2, .sequence = 32};
  const auto named = [&](const char* what, const char* nearest, auto set, auto set_nearest) {
    Plan bad = plan, good = plan;
    set(bad);
    set_nearest(good);
    EXPECT_THAT(illegal(bad, model), says(what, nearest));
    EXPECT_EQ(illegal(good, model), std::nullopt) << nearest;
  };
  named(
      "do not split over tp 4", "the nearest that does: 3", [](Plan& p) { p.parallel.tp = 4; },
      [](Plan& p) { p.parallel.tp = 3; });
  named(
      "x 4 tiles", "the nearest that do: 3 tiles", [](Plan& p) { p.gather = Gather::in_tiles(4); },
      [](Plan& p) { p.gather = Gather::in_tiles(3); });
  named(
      "5 equal pieces for the head", "the nearest that does: 4", [](Plan& p) { p.head_chunks = 5; },
      [](Plan& p) { p.head_chunks = 4; });
  named(
      "needs a layer per piece", "for pp up to 4",
      [](Plan& p) { p.parallel.pp = 8, p.schedule = Schedule::kZeroBubbleV; },
      [](Plan& p) { p.parallel.pp = 4, p.schedule = Schedule::kZeroBubbleV; });
  const auto over_tokens = [](std::int64_t sequence) {
    return [sequence](Plan& p) {
      p.parallel.tp = 3, p.parallel.sequence_parallel = true, p.batch.sequence = sequence;
    };
  };
  named("sequence 32 does not split over tp 3", "the nearest sequence that does: 33",
        over_tokens(32), over_tokens(33));
  plan.parallel.dp = 8;
  plan.zero_stage = 3;
  named(
      "3 ranks that share a copy", "the nearest that do: 2", [](Plan& p) { p.parallel.shards = 3; },
      [](Plan& p) { p.parallel.shards = 2; });
  named(
      "do not cut the 8 ranks", "the nearest that do: 4", [](Plan& p) { p.secondary = 5; },
      [](Plan& p) { p.secondary = 4; });
  model.experts = 12;
  model.experts_per_token = 2;
  model.expert_ffn = 96;
  named(
      "12 experts do not split over ep 8", "the nearest that does: 4",
      [](Plan& p) { p.parallel.ep = 8; }, [](Plan& p) { p.parallel.ep = 4; });
  named(
      "ep 3 does not divide dp 8", "the nearest that does: 2", [](Plan& p) { p.parallel.ep = 3; },
      [](Plan& p) { p.parallel.ep = 2; });
}

}  // namespace
}  // namespace zplan
