#include "planner/validate/record_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hwprofiles/memory_quantity.h"
#include "planner/core/error.h"
#include "planner/plan/choices.h"
#include "tests/unit/validate/sample_run.h"

namespace zplan {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kBatch = "\"micro_batch\"";

using Changes = std::initializer_list<std::pair<const char*, const char*>>;

PlannedRun planned(Changes changes = {}) {
  static const RunCatalogues catalogues;
  return plan_run(sample_run(changes), catalogues);
}

TEST(RecordPlan, EveryDecisionIsPinned) {
  const PlannedRun run = planned();
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.stack, "megatron2020");
  EXPECT_EQ(run.plan.parallel.dp, 4);
  EXPECT_EQ(run.plan.parallel.tp, 2);
  EXPECT_EQ(run.plan.zero_stage, 0);
  EXPECT_EQ(run.plan.batch.global_batch, 64);
  EXPECT_EQ(run.plan.batch.micro_batch, 4);
  EXPECT_EQ(run.plan.batch.sequence, 1024);
  EXPECT_EQ(run.plan.kernel_set, "cuda.sm80.bf16.unfused");
  EXPECT_TRUE(run.plan.all_full());
  EXPECT_EQ(run.cluster.devices(), 8);
  EXPECT_EQ(run.model.biases, Biases::kAll);
}

TEST(RecordPlan, KernelsByDeviceFormatAndFusion) {
  EXPECT_EQ(planned({{"\"flash_attention\": false", "\"flash_attention\": true"}}).plan.kernel_set,
            "cuda.sm80.bf16");
  EXPECT_EQ(planned({{"\"bf16\"", "\"fp16\""}}).plan.kernel_set, "cuda.sm80.fp16.unfused");
  EXPECT_TRUE(planned({{"\"bf16\"", "\"fp16\""}}).plan.loss_scaling);
  EXPECT_EQ(planned({{"a100_sxm4_80gb", "h100_sxm5_80gb"},
                     {"\"bf16\"", "\"fp8\""},
                     {"\"flash_attention\": false", "\"flash_attention\": null"}})
                .plan.kernel_set,
            "cuda.sm90.fp8");
  EXPECT_THAT(planned({{"\"bf16\"", "\"int4\""}}).unsupported,
              HasSubstr("not modelled: products in int4"));
}

// torchtitan computes some products of each layer again, which fused attention alone does not ask
// for.
TEST(RecordPlan, SelectiveRecomputationIsThatOfTheSoftware) {
  const auto recomputed = [](const char* source) {
    RunRecord run = sample_run();
    run.hardware.device = "h100_sxm5_80gb";
    run.software.cited = source;
    run.flash_attention = true;
    run.recompute = "selective";
    static const RunCatalogues catalogues;
    const PlannedRun planned = plan_run(run, catalogues);
    EXPECT_EQ(planned.unsupported, "");
    return planned.plan.recompute;
  };
  const std::vector<RecomputeRun> titan = recomputed("torchtitan, a table");
  ASSERT_EQ(titan.size(), 2u);
  EXPECT_EQ(titan[0].layers, 12);
  EXPECT_TRUE(titan[0].operators.has(LayerOperator::kFc1));
  EXPECT_FALSE(titan[1].operators.has(LayerOperator::kFc1));
  const std::vector<RecomputeRun> nemo = recomputed("NeMo, a table");
  ASSERT_EQ(nemo.size(), 1u);
  EXPECT_EQ(nemo[0].mode, Recompute::kSelective);
}

TEST(RecordPlan, LayersThatAreCountedAreRecomputedWhole) {
  const PlannedRun run = planned(
      {{"\"recompute\": \"full\"", "\"recompute\": \"selective\""},
       {"\"recompute_detail\": null", "\"recompute_detail\": \"checkpoints of 5 of 24 layers\""}});
  ASSERT_EQ(run.unsupported, "");
  const std::vector<RecomputeRun> expected{{.mode = Recompute::kFull, .layers = 5}, {}};
  EXPECT_EQ(run.plan.recompute, expected);
}

// The words of every stack are those of /recompute.
TEST(RecordPlan, EveryStackSaysWhatItRecomputesInKnownWords) {
  for (const StackProfile& stack : stack_catalogue())
    for (const RecomputedShare& share : stack.selective)
      EXPECT_TRUE(recompute_from_words(share.recompute)) << stack.name << ": " << share.recompute;
}

// [TransformerEngine] takes heads of multiples of 8 only; PyTorch pads the others.
TEST(RecordPlan, HeadsThatNoFusedKernelTakesStoreTheirScores) {
  const auto kernels = [](const char* source) {
    return planned({{"Fast training", source},
                    {"\"hidden\": 2048, \"heads\": 16", "\"hidden\": 1600, \"heads\": 16"},
                    {"\"head_dim\": 128, \"ffn\": 8192", "\"head_dim\": 100, \"ffn\": 6400"},
                    {"\"params\": 1.3e9", "\"params\": null"},
                    {"\"zero_stage\": 0", "\"zero_stage\": 3"},
                    {"\"flash_attention\": false", "\"flash_attention\": true"}});
  };
  EXPECT_EQ(kernels("Megatron-Core").plan.kernel_set, "cuda.sm80.bf16.unfused");
  EXPECT_THAT(kernels("Megatron-Core").flags,
              Contains("attention unfused: no fused kernel for heads of size 100"));
  EXPECT_EQ(kernels("llm-foundry").plan.kernel_set, "cuda.sm80.bf16");
}

TEST(RecordPlan, GraphsAndCompilationAreFactsOfTheRun) {
  EXPECT_EQ(planned().plan.launch, LaunchMode::kStream);
  const PlannedRun run = planned(
      {{"Fast training", "llm-foundry"},
       {kBatch, "\"software\": {\"cuda_graphs\": true, \"compiled\": true}, \"micro_batch\""}});
  EXPECT_EQ(run.plan.launch, LaunchMode::kGraph);
  EXPECT_EQ(run.cluster.stack.modules, Modules::kCompiled);
  EXPECT_EQ(planned({{"Fast training", "llm-foundry"}}).cluster.stack.modules, Modules::kEager);
}

// Other software is compiled, too: what the layers run through is no name of a trainer.
TEST(RecordPlan, WhatACitationCompilesRunsCompiled) {
  const auto modules = [](const char* source, const char* said) {
    const PlannedRun run =
        planned({{"Fast training", source}, {kBatch, said}, {"a100_sxm4_80gb", "h100_sxm5_80gb"}});
    return std::pair(run.stack, run.cluster.stack.modules);
  };
  EXPECT_EQ(modules("torchtitan, torch.compile", kBatch),
            std::pair(std::string("torchtitan"), Modules::kCompiled));
  EXPECT_EQ(modules("torchtitan", kBatch), std::pair(std::string("torchtitan"), Modules::kEager));
  EXPECT_EQ(modules("torchtitan, torch.compile",
                    "\"software\": {\"cuda_graphs\": null, \"compiled\": false}, \"micro_batch\""),
            std::pair(std::string("torchtitan"), Modules::kEager));
  EXPECT_EQ(modules("nanoGPT, torch.compile", kBatch),
            std::pair(std::string("torch_compile"), Modules::kCompiled));
}

TEST(RecordPlan, UpdatesAndMasksAreFactsOfTheRun) {
  const auto rates = [](const char* said) {
    return planned({{"Fast training", "FSDP"}, {kBatch, said}}).cluster.stack;
  };
  EXPECT_FALSE(rates(kBatch).foreach_update);
  EXPECT_FALSE(rates(kBatch).dense_mask);
  const StackRates said = rates(
      "\"software\": {\"cuda_graphs\": null, \"compiled\": null, \"foreach_update\": true, "
      "\"dense_mask\": true}, \"micro_batch\"");
  EXPECT_TRUE(said.foreach_update);
  EXPECT_TRUE(said.dense_mask);
}

// An eager loss in fp32 moves 36 bytes per logit, a compiled one 8.
TEST(RecordPlan, ALossOutsideOfWhatIsCompiledIsEager) {
  const auto loss = [](const char* said) {
    return planned({{"Fast training", "torch.compile"}, {kBatch, said}}).cluster.stack.loss;
  };
  EXPECT_DOUBLE_EQ(
      loss("\"software\": {\"cuda_graphs\": null, \"compiled\": true, \"eager_loss\": true}, "
           "\"micro_batch\""),
      loss(kBatch) * 36 / 8);
}

// [TorchAO] Of x for y, dy for dx, x and dy for dw one cast is in no table of products: a quarter.
TEST(RecordPlan, ScalesOfRowsCastTheSecondOperandOfAWeightGradient) {
  const auto casts = [](const char* rows) {
    return planned({{"Fast training", "torchtitan"}, {kBatch, rows}}).cluster.stack.fp8_casts;
  };
  EXPECT_EQ(casts(kBatch), 0);
  EXPECT_EQ(casts("\"software\": {\"cuda_graphs\": null, \"compiled\": null, \"fp8_rows\": true}, "
                  "\"micro_batch\""),
            1.0 / 4);
}

// [PyTorch] FSDP casts what it gathers; parameters in fp32 that every rank has whole are cast by
// torch.autocast. Parameters in 16 bits need no cast.
TEST(RecordPlan, ReplicatedParametersInFp32AreCastForEachProduct) {
  const auto casts = [](const char* zero, const char* bytes, const char* source = "torch.compile") {
    return planned({{"Fast training", source},
                    {"\"zero_stage\": 0", zero},
                    {"\"param_bytes\": null", bytes},
                    {"\"flash_attention\": false", "\"flash_attention\": true"}})
        .cluster.stack.autocast;
  };
  constexpr const char *kReplicated = "\"zero_stage\": 0", *kUnsaid = "\"param_bytes\": null";
  EXPECT_TRUE(casts(kReplicated, kUnsaid));
  EXPECT_TRUE(casts(kReplicated, "\"param_bytes\": 4"));
  EXPECT_FALSE(casts(kReplicated, "\"param_bytes\": 2"));
  EXPECT_FALSE(casts("\"zero_stage\": 3", kUnsaid));
  EXPECT_FALSE(casts(kReplicated, kUnsaid, "no software")) << "a guess";
}

// [Foundry] benchmarks with mixed precision PURE, in which FSDP reduces in 16 bits.
TEST(RecordPlan, LlmFoundryReducesIn16Bits) {
  const PlannedRun run =
      planned({{"Fast training", "llm-foundry"}, {"\"zero_stage\": 0", "\"zero_stage\": 3"}});
  EXPECT_EQ(run.plan.precision.grad_cast, GradientCast::kAfterReduction);
}

// [MegatronCore] Without tp_comm_overlap nothing of these collectives runs beside the products;
// with it a part does, also where the software does not overlap by itself.
TEST(RecordPlan, CollectivesOverlapAsTheRecordSays) {
  const auto exposed = [](const char* software, const char* overlap) {
    return planned({{"a100_sxm4_80gb", "h100_sxm5_80gb"},
                    {"Fast training", software},
                    {"\"flash_attention\": false", "\"flash_attention\": true"},
                    {"\"tp_comm_overlap\": null", overlap}})
        .cluster.stack.tensor_exposed;
  };
  const double of_engine = exposed("NeMo", "\"tp_comm_overlap\": null");
  EXPECT_LT(of_engine, 1);
  EXPECT_EQ(exposed("NeMo", "\"tp_comm_overlap\": true"), of_engine);
  EXPECT_EQ(exposed("NeMo", "\"tp_comm_overlap\": false"), 1);
  EXPECT_EQ(exposed("Megatron-Core", "\"tp_comm_overlap\": null"), 1);
  EXPECT_EQ(exposed("Megatron-Core", "\"tp_comm_overlap\": true"), of_engine)
      << "the same engine's kernels";
  EXPECT_EQ(exposed("torchtitan", "\"tp_comm_overlap\": null"), 1);
  const double compiled = exposed("torchtitan", "\"tp_comm_overlap\": true");
  EXPECT_LT(of_engine, compiled);
  EXPECT_LT(compiled, 1);
}

TEST(RecordPlan, TheRecipeHasTheStatedBytes) {
  const auto optimizer_bytes = [](const char* grad, const char* optimizer) {
    const PlannedRun run = planned({{"\"param_bytes\": null", "\"param_bytes\": 2"},
                                    {"\"grad_bytes\": null", grad},
                                    {"\"optimizer_bytes_per_param\": null", optimizer}});
    EXPECT_EQ(run.unsupported, "");
    return std::pair(size_of(run.plan.precision.grad).value, run.plan.optimizer_bytes().value);
  };
  EXPECT_EQ(optimizer_bytes("\"grad_bytes\": 2", "\"optimizer_bytes_per_param\": 12"),
            std::pair(2L, 12L));
  EXPECT_EQ(optimizer_bytes("\"grad_bytes\": 4", "\"optimizer_bytes_per_param\": 12"),
            std::pair(4L, 12L));
  EXPECT_EQ(optimizer_bytes("\"grad_bytes\": 2", "\"optimizer_bytes_per_param\": 16"),
            std::pair(2L, 16L));
  EXPECT_EQ(optimizer_bytes("\"grad_bytes\": null", "\"optimizer_bytes_per_param\": 4"),
            std::pair(2L, 4L));
}

TEST(RecordPlan, TheRecipeGoesWithTheZeroStage) {
  const Changes shards = {{"\"zero_stage\": 0", "\"zero_stage\": 2"},
                          {"Fast training", "FSDP"},
                          {"\"flash_attention\": false", "\"flash_attention\": true"}};
  const PlannedRun usual = planned(shards);
  EXPECT_EQ(usual.unsupported, "");
  EXPECT_EQ(usual.stack, "fsdp");
  EXPECT_EQ(usual.plan.precision, default_recipe(usual.plan.kernel_set));
  EXPECT_THAT(usual.flags,
              Contains(HasSubstr("recipe fsdp-pure of the stack is not for ZeRO stage 2")));
  const PlannedRun stated =
      planned({{"\"param_bytes\": null", "\"param_bytes\": 4"},
               {"\"grad_bytes\": null", "\"grad_bytes\": 4"},
               {"\"optimizer_bytes_per_param\": null", "\"optimizer_bytes_per_param\": 8"}});
  EXPECT_EQ(stated.unsupported, "");
  EXPECT_FALSE(stated.plan.casts_params());
}

TEST(RecordPlan, AnUnstatedZeroStageIsTheOneThatHomesNeed) {
  const auto stage = [](const char* zero, const char* params, const char* grads) {
    return planned({{"\"zero_stage\": 0", zero},
                    {"\"params\": \"gpu\"", params},
                    {"\"grads\": \"gpu\"", grads},
                    {"\"optimizer\": \"gpu\"", "\"optimizer\": \"cpu\""}})
        .plan.zero_stage;
  };
  constexpr const char *kParams = "\"params\": \"gpu\"", *kGrads = "\"grads\": \"gpu\"";
  EXPECT_EQ(stage("\"zero_stage\": null", kParams, kGrads), 0);
  EXPECT_EQ(stage("\"zero_stage\": null", kParams, "\"grads\": \"cpu\""), 2);
  EXPECT_EQ(stage("\"zero_stage\": null", "\"params\": \"nvme\"", kGrads), 3);
  EXPECT_EQ(stage("\"zero_stage\": 1", "\"params\": \"nvme\"", kGrads), 1) << "as stated";
}

TEST(RecordPlan, UnstatedHeadsAreNearAHundredAndTwentyEightWide) {
  const PlannedRun run = planned({{"\"heads\": 16", "\"heads\": null"},
                                  {"\"kv_heads\": 16", "\"kv_heads\": null"},
                                  {"\"head_dim\": 128", "\"head_dim\": null"}});
  EXPECT_EQ(run.model.heads, 16);
  EXPECT_EQ(run.model.kv_heads, 16);
  EXPECT_THAT(run.flags, Contains("16 heads assumed"));
  EXPECT_EQ(run.unsupported, "");
}

TEST(RecordPlan, FeaturesOfModelsGoTogetherFreely) {
  const PlannedRun run = planned({{"\"family\": \"gpt\"", "\"family\": \"mpt\""},
                                  {"\"head_dim\": 128", "\"head_dim\": 64"},
                                  {"\"position\": \"learned\"", "\"position\": \"rope\""}});
  EXPECT_EQ(run.unsupported, "");
  EXPECT_EQ(run.model.position, Position::kRope);
  EXPECT_EQ(run.model.norm, Norm::kLayerNorm);
  EXPECT_EQ(run.model.biases, Biases::kNone);
  EXPECT_EQ(run.model.own_head_size, 64);
  EXPECT_FALSE(run.model.gated_mlp);
}

TEST(RecordPlan, FractionalMicroStepsAreRoundedAndSaidSo) {
  const PlannedRun run = planned({{"\"global_batch\": 64", "\"global_batch\": 70"}});
  EXPECT_EQ(run.plan.batch.global_batch, 64);
  EXPECT_THAT(run.flags, Contains("4.375 micro-steps rounded to 4"));
}

// [MegatronCore] Keys and values go around.
TEST(RecordPlan, ContextParallelRanksAreARing) {
  const PlannedRun run = planned({{"\"cp\": 1", "\"cp\": 2"},
                                  {"\"dp\": 4", "\"dp\": 2"},
                                  {"\"flash_attention\": false", "\"flash_attention\": true"}});
  EXPECT_EQ(run.unsupported, "");
  EXPECT_EQ(run.plan.parallel.cp, 2);
  EXPECT_EQ(run.plan.parallel.ring, 2);
  EXPECT_EQ(run.plan.parallel.dp, 2);
}

TEST(RecordPlan, WhatCannotBeExpressedIsAReason) {
  EXPECT_EQ(planned({{"\"interleave\": 1", "\"interleave\": 2"}}).unsupported,
            "2 chunks per stage need pp > 1");
  EXPECT_THAT(planned({{"\"cp\": 1", "\"cp\": 2"}, {"\"dp\": 4", "\"dp\": 2"}}).unsupported,
              HasSubstr("it needs fused attention"));
  EXPECT_EQ(planned({{"\"experts\": null", "\"experts\": 8"}}).unsupported,
            "not modelled: experts whose routing nobody states");
  EXPECT_EQ(
      planned({{"\"activations\": \"gpu\"", "\"activations\": \"cpu\""}, {"\"full\"", "\"none\""}})
          .unsupported,
      "activations swapped one by one");
  EXPECT_EQ(planned({{"\"schedule\": null", "\"schedule\": \"interleaved\""}}).unsupported,
            "interleaved pipeline of chunks that are not stated");
  EXPECT_THAT(
      planned({{"\"schedule\": null", "\"schedule\": \"zero_bubble\""}}).unsupported,
      HasSubstr(
          "or dualpipe-v or dualpipe or pipedream-2bw or pipedream or file, got \"zero_bubble\""));
  EXPECT_THAT(planned({{"\"position\": \"learned\"", "\"position\": \"\\u001b[31m\""}}).unsupported,
              HasSubstr("positions \"\\u001b[31m\""));
  EXPECT_THAT(planned({{"a100_sxm4_80gb", "a101_sxm4_80gb"}}).unsupported,
              HasSubstr("unknown device"));
  EXPECT_THAT(planned({{"a100_sxm4_80gb", "B200"}}).unsupported,
              HasSubstr("unknown device \"B200\"; did you mean \"b200_sxm_180gb\"?"));
  EXPECT_THAT(planned({{"\"params\": \"gpu\"", "\"params\": \"cpu\""}}).unsupported,
              HasSubstr("need ZeRO stage 3"));
}

TEST(RecordPlan, OptionsThatTheSourceNamesAreFollowed) {
  const PlannedRun run =
      planned({{"\"flash_attention\": false", "\"flash_attention\": true"},
               {"\"recompute\": \"full\"", "\"recompute\": \"selective\""},
               {"\"optimizer\": \"gpu\"", "\"optimizer\": \"cpu\""},
               {"\"recompute_detail\": null",
                "\"recompute_detail\": \"--lmhead-chunks=8 --offload-opt-m --recompute-ffn\""}});
  EXPECT_EQ(run.unsupported, "");
  EXPECT_EQ(run.plan.head_chunks, 8);
  EXPECT_EQ(run.plan.placement.optimizer, Tier::kGpu);
  EXPECT_TRUE(run.plan.offload.moment1);
  EXPECT_EQ(run.plan.recompute.front().operators,
            (OperatorSet{LayerOperator::kFc1, LayerOperator::kActivation}));
}

TEST(RecordPlan, AHeadThatDoesNotSplitEvenlyIsWhole) {
  const PlannedRun run =
      planned({{"\"recompute_detail\": null", "\"recompute_detail\": \"--lmhead-chunks=3\""}});
  EXPECT_EQ(run.unsupported, "");
  EXPECT_EQ(run.plan.head_chunks, 1);
  EXPECT_THAT(run.flags, Contains("the output head in one piece instead of 3"));
}

TEST(RecordPlan, TheStackCanBeNamed) {
  const RunCatalogues catalogues;
  const StackProfile stack = load_stack("nemo2024");
  const PlannedRun run = plan_run(sample_run(), catalogues, &stack);
  EXPECT_EQ(run.stack, "nemo2024");
  EXPECT_EQ(run.cluster.stack.gemm, stack.rates.gemm);
}

TEST(RecordPlan, MemoryOfTheStackIsAsTheRecordSays) {
  using enum MemoryQuantity;
  const RunCatalogues catalogues;
  const StackProfile stack = load_stack("megatron_core");
  const auto holds = [&](std::initializer_list<std::pair<const char*, const char*>> changes) {
    return plan_run(sample_run(changes), catalogues, &stack).cluster.memory;
  };
  constexpr int kHopper = 90;
  const auto stated = [&](MemoryQuantity q) { return stack.memory.at(q, kHopper); };
  const StackMemory plain = holds({});
  EXPECT_EQ(plain.at(kLoss, kHopper), stated(kLoss));
  EXPECT_EQ(plain.at(kResidual, kHopper), stated(kResidual)) << "dropout unless it is denied";
  EXPECT_EQ(plain.at(kOverlapLibraries, kHopper), 0);
  EXPECT_EQ(holds({{"\"dropout\": null", "\"dropout\": false"}}).at(kResidual, kHopper), 0);
  EXPECT_EQ(holds({{"\"tp_comm_overlap\": null", "\"tp_comm_overlap\": true"}})
                .at(kOverlapLibraries, kHopper),
            stated(kOverlapLibraries));
  EXPECT_EQ(holds({{"Somebody, Fast training", "tests/gpt_cross_entropy_loss_fusion"}})
                .at(kLoss, kHopper),
            stated(kCompiledLoss));
}

}  // namespace
}  // namespace zplan
