// These tests say what the keys of each subject make of a plan.
#include "planner/validate/record_subjects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hwprofiles/memory_quantity.h"
#include "hwprofiles/topology.h"
#include "planner/validate/evaluate.h"
#include "planner/validate/run_keys.h"
#include "tests/unit/validate/second_form.h"

namespace zplan {
namespace {

using enum LayerOperator;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Changes = std::initializer_list<std::pair<const char*, Json>>;

const RunCatalogues& catalogues() {
  static const RunCatalogues all;
  return all;
}

PlannedRun planned(Changes changes, const Json& record = base()) {
  const Json changed = with(record, changes);
  const auto run = read(changed);
  EXPECT_TRUE(run) << complaint(changed);
  return run ? plan_run(*run, catalogues()) : PlannedRun{};
}

Json experts() {
  return with(base(), {{"/model/experts/count", 16},
                       {"/model/experts/top_k", 2},
                       {"/model/experts/ffn", 512},
                       {"/model/experts/dense_layers", 2},
                       {"/parallel/ep", 4}});
}
Json sharded() {
  return with(base(), {{"/software/name", "hf"},
                       {"/parallel/dp", 8},
                       {"/parallel/tp", 1},
                       {"/parallel/zero_stage", 3}});
}

TEST(RecordStack, IsTheNamedOneWhateverTheSourceSays) {
  EXPECT_EQ(planned({{"/software/name", "nemo2024"}}).stack, "nemo2024");
  EXPECT_EQ(planned({{"/software/name", "megatron-bridge"}}).stack, "megatron_bridge");
  EXPECT_EQ(
      planned({{"/software/name", "Megatron-Bridge"}, {"/software/libraries", {"Megatron-Core"}}})
          .stack,
      "megatron_bridge");
  EXPECT_EQ(planned({{"/source", "FSDP, torch.compile"}}).stack, "megatron_core");
}

TEST(RecordStack, IsFoundInTheWordsOfItsName) {
  const std::pair<const char*, const char*> names[] = {
      {"Megatron Core", "megatron_core"},  {"Megatron Bridge", "megatron_bridge"},
      {"NVIDIA NeMo 25.02", "nemo2024"},   {"HF TRL", "hf"},
      {"Hugging Face Transformers", "hf"}, {"LlamaFactory", "hf"},
      {"PyTorch FSDP2", "fsdp"},           {"NeMo AutoModel", "fsdp"},
      {"DeepSpeed ZeRO-3", "deepspeed"},   {"TorchTitan v0.2", "torchtitan"},
  };
  for (const auto& [name, stack] : names) {
    const PlannedRun run = planned({{"/software/name", name}});
    EXPECT_EQ(run.stack, stack) << name;
    EXPECT_TRUE(run.stack_stated) << name;
  }
  EXPECT_FALSE(planned({{"/software/name", "verl"}}).stack_stated);
}

TEST(RecordStack, IsThatOfALibraryWhereTheTrainerHasNone) {
  const PlannedRun run = planned(
      {{"/software/name", "NeMo AutoModel"}, {"/software/libraries", {"FSDP2"}}}, sharded());
  EXPECT_EQ(run.stack, "fsdp");
  EXPECT_TRUE(run.stack_stated);
  EXPECT_FALSE(planned({{"/software/name", "a trainer of ours"}}).stack_stated);
}

TEST(RecordTrained, FactorsOfLoraStandBesideTheNamedMatrices) {
  const auto lora = [](Json targets) {
    return planned({{"/trained/what", "lora"},
                    {"/trained/lora/rank", 32},
                    {"/trained/lora/alpha", 64},
                    {"/trained/lora/targets", std::move(targets)}});
  };
  const PlannedRun all = lora({"q", "k", "v", "o", "gate", "up", "down"});
  ASSERT_EQ(all.unsupported, "");
  EXPECT_EQ(all.plan.train.what, Trained::kLora);
  EXPECT_EQ(all.plan.train.rank, 32);
  EXPECT_EQ(all.plan.train.alpha, 64);
  EXPECT_EQ(all.plan.train.targets, LoraTargets::kAll);
  EXPECT_EQ(lora({"attention"}).plan.train.targets, LoraTargets::kAttention);
  EXPECT_EQ(lora({"attention", "mlp"}).plan.train.targets, LoraTargets::kAll);
  EXPECT_EQ(lora({"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}).plan.train.targets,
            LoraTargets::kAll);
  const PlannedRun two = lora({"q_proj", "v_proj"});
  EXPECT_EQ(two.plan.train.targets, LoraTargets::kQkv) << "which are one product";
  EXPECT_THAT(two.flags, Contains("LoRA of q, v as of qkv"));
  EXPECT_EQ(lora({"up", "down"}).plan.train.targets, LoraTargets::kMlp);
  EXPECT_EQ(lora({"o", "down"}).plan.train.targets, LoraTargets::kAll);
}

TEST(RecordTrained, ModelsWithExpertsHaveFactorsAndFrozenPartsToo) {
  const PlannedRun lora =
      planned({{"/trained/what", "lora"}, {"/trained/lora/rank", 16}}, experts());
  EXPECT_EQ(lora.unsupported, "");
  EXPECT_EQ(lora.plan.train.rank, 16);
  EXPECT_EQ(planned({{"/trained/what", "layers"}}, experts()).unsupported, "");
}

TEST(RecordTrained, EmbeddingsNormAndHeadAreFrozenTogether) {
  EXPECT_EQ(planned({{"/trained/frozen", {"embeddings", "final_norm", "head"}}}).plan.train.what,
            Trained::kLayers);
  EXPECT_EQ(planned({{"/trained/frozen", {"embeddings"}}}).unsupported,
            "not modelled: embeddings frozen, the rest trained");
}

TEST(RecordExperts, AreThoseOfTheModelOnTheStatedRanks) {
  const PlannedRun run = planned({{"/experts/tp", 1}, {"/experts/imbalance", 1.5}}, experts());
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.model.experts->count, 16);
  EXPECT_EQ(run.model.experts->per_token, 2);
  EXPECT_EQ(run.model.experts->dense_layers, 2);
  EXPECT_EQ(run.plan.parallel.ep, 4);
  EXPECT_EQ(run.plan.parallel.expert_tp, 1);
  EXPECT_EQ(run.plan.expert_imbalance, 1.5);
}

TEST(RecordModel, HasModulesOfMultiTokenPredictionWithLayersOfTheirOwn) {
  const PlannedRun run = planned({{"/model/mtp/layers", 2}}, experts());
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.model.mtp_layers, 2);
  EXPECT_THAT(planned({{"/model/mtp/layers", 2}, {"/model/mtp/repeated", true}}, experts()).flags,
              Contains("each module of multi-token prediction with parameters of its own"));
}

TEST(RecordModel, ExpertsMayWorkOnFewerElementsBesideASharedOneWithAGate) {
  const PlannedRun run = planned({{"/model/experts/latent_size", 256},
                                  {"/model/experts/shared_ffn", 512},
                                  {"/model/experts/shared_gate", true},
                                  {"/model/activation", "squared_relu"},
                                  {"/model/gated_ffn", false}},
                                 experts());
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.model.experts->latent, 256);
  EXPECT_TRUE(run.model.experts->shared_gate);
  EXPECT_EQ(run.model.layer.activation, Activation::kSquaredRelu);
}

TEST(RecordExperts, AreCutOverAllTensorParallelRanksOrNone) {
  EXPECT_EQ(planned({{"/experts/tp", 2}}, experts()).plan.parallel.expert_tp, 0);
  const Json four =
      with(experts(), {{"/parallel/tp", 4}, {"/parallel/dp", 2}, {"/parallel/ep", 2}});
  EXPECT_EQ(planned({{"/experts/tp", 2}}, four).unsupported,
            "not modelled: experts cut over 2 ranks, all else over 4");
}

TEST(RecordExperts, OverContextParallelRanksAreNotModelled) {
  const Json contexts =
      with(experts(), {{"/parallel/cp", 4}, {"/parallel/dp", 1}, {"/parallel/ep", 4}});
  EXPECT_EQ(planned({{"/experts/tp", 2}}, contexts).unsupported,
            "not modelled: experts over context parallel ranks");
}

TEST(RecordExperts, RoutingThatNobodyForcesHasTheUsualImbalanceAndIsSaidTo) {
  const Json alone = with(experts(), {{"/parallel/tp", 1}, {"/parallel/dp", 8}});
  const PlannedRun forced = planned({{"/experts/routing", "balanced"}}, alone);
  EXPECT_EQ(forced.plan.expert_imbalance, 1);
  EXPECT_TRUE(forced.stack_stated);
  const PlannedRun trained = planned({{"/experts/routing", "trained"}}, alone);
  EXPECT_EQ(trained.plan.expert_imbalance, kUsualImbalance);
  EXPECT_THAT(trained.flags, Contains(HasSubstr("busiest experts taken as having")));
  EXPECT_FALSE(trained.stack_stated);
}

TEST(RecordExperts, HaveBesideTheirExchangeWhatTheRecordSays) {
  const auto overlap = [](Changes said) { return planned(said, experts()).plan.overlap; };
  EXPECT_FALSE(overlap({}).exchange);
  EXPECT_TRUE(overlap({{"/overlap/exchange", true}}).exchange);
  EXPECT_TRUE(overlap({{"/overlap/weight_gradients", true}}).weight_gradients);
  EXPECT_TRUE(overlap({}).shared_expert) << "of which there is none";
  const Json shared = with(experts(), {{"/model/experts/shared_ffn", 512}});
  EXPECT_FALSE(planned({}, shared).plan.overlap.shared_expert);
  EXPECT_TRUE(planned({{"/overlap/shared_expert", true}}, shared).plan.overlap.shared_expert);
}

TEST(RecordExperts, TheExchangeIsNoneWhereRanksHaveAllOfThem) {
  const PlannedRun run = planned({{"/overlap/exchange", true}, {"/parallel/ep", 1}}, experts());
  EXPECT_EQ(run.unsupported, "");
  EXPECT_FALSE(run.plan.overlap.exchange);
}

TEST(RecordExperts, DispatchersThatNobodyKnowsAreTakenForAnAllToAll) {
  const PlannedRun gathered = planned({{"/experts/dispatcher", "allgather"}}, experts());
  ASSERT_EQ(gathered.unsupported, "");
  EXPECT_EQ(gathered.plan.dispatcher, Dispatcher::kAllGather);
  const auto dispatcher = [](const char* word) {
    return planned({{"/experts/dispatcher", word}}, experts()).plan.dispatcher;
  };
  EXPECT_EQ(dispatcher("hybridep"), Dispatcher::kHybridEp);
  EXPECT_EQ(dispatcher("flex"), Dispatcher::kDeepEp) << "where it is not told to be another";
  const PlannedRun other = planned({{"/experts/dispatcher", "pplx"}}, experts());
  ASSERT_EQ(other.unsupported, "");
  EXPECT_EQ(other.plan.dispatcher, Dispatcher::kAllToAll);
  EXPECT_THAT(other.flags, Contains("experts exchanged by all-to-all instead of pplx"));
}

// On devices where links and not multiprocessors limit them these change nothing.
TEST(RecordExperts, LinksAreAsFastAsTheMultiprocessorsOfTheExchange) {
  const auto links = [](const char* device, std::int32_t multiprocessors) {
    return planned({{"/hardware/device", device},
                    {"/experts/dispatcher", "hybridep"},
                    {"/experts/communication_sms", multiprocessors}},
                   experts())
        .cluster.stack.token_links;
  };
  EXPECT_DOUBLE_EQ(links("b200_sxm_180gb", 24), 0.7);
  EXPECT_DOUBLE_EQ(links("b200_sxm_180gb", 12), 0.35);
  EXPECT_DOUBLE_EQ(links("b200_sxm_180gb", 48), StackRates{}.token_links) << "of the links";
  EXPECT_DOUBLE_EQ(links("h100_sxm5_80gb", 12), StackRates{}.token_links);
}

// AutoModel's forced balance gives a token 6 neighbours of 128 experts: as if of a group of 8.
TEST(RecordExperts, NeighboursAreAsOfOneGroupThatDividesThem) {
  const auto shape = [](std::int64_t count, std::int64_t chosen) {
    return *planned({{"/software/name", "NeMo AutoModel"},
                     {"/model/experts/count", count},
                     {"/model/experts/top_k", chosen},
                     {"/parallel/tp", 1},
                     {"/parallel/dp", 8},
                     {"/parallel/sequence_parallel", false},
                     {"/experts/routing", "balanced"}},
                    experts())
                .model.experts;
  };
  EXPECT_EQ(shape(128, 8).groups, 16);
  EXPECT_EQ(shape(128, 6).groups, 16);
  EXPECT_EQ(shape(512, 22).groups, 16);
  EXPECT_EQ(shape(512, 22).groups_per_token, 1);
}

TEST(RecordExperts, AreWholeWhereNothingElseSpreadsThem) {
  const Json tensor = with(experts(), {{"/parallel/tp", 4}, {"/parallel/dp", 2}});
  const PlannedRun folded = planned({{"/parallel/ep", 8}}, tensor);
  ASSERT_EQ(folded.unsupported, "");
  EXPECT_EQ(folded.plan.parallel.expert_tp, 1);
  EXPECT_THAT(folded.flags, Contains("whole experts on each tensor parallel rank assumed"));
  const PlannedRun cut = planned({{"/parallel/ep", 2}}, tensor);
  EXPECT_EQ(cut.plan.parallel.expert_tp, 0);
  const char* const all = "each tensor parallel rank exchanges the rows of all its tokens";
  EXPECT_THAT(cut.flags, Not(Contains(all)));
  const PlannedRun whole =
      planned({{"/parallel/ep", 2}, {"/parallel/sequence_parallel", false}}, tensor);
  EXPECT_THAT(whole.flags, Contains(all));
  EXPECT_FALSE(whole.stack_stated);
}

TEST(RecordPrecision, OfPyTorchEverythingFollowsTheParameters) {
  const PlannedRun run = planned({{"/precision/params", "bf16"}}, sharded());
  ASSERT_EQ(run.unsupported, "");
  const PrecisionRecipe& recipe = run.plan.precision;
  for (const DType type : {recipe.param, recipe.grad, recipe.master, recipe.moments})
    EXPECT_EQ(type, DType::kBf16);
  EXPECT_FALSE(recipe.separate_master);
}

TEST(RecordPrecision, GradientsInFp32NeedNoCopyOfThem) {
  const Json bloom = with(base(), {{"/software/name", "Megatron-DeepSpeed"},
                                   {"/hardware/device", "a100_sxm4_80gb"},
                                   {"/kernels/attention", "unfused"}});
  EXPECT_EQ(planned({{"/precision/reduction", "fp32"}}, bloom).unsupported, "");
}

TEST(RecordPrecision, UpdatesBesideBackwardLeaveNoRoomForClipping) {
  const Json beside = with(sharded(), {{"/overlap/update", true}, {"/offload/optimizer", "cpu"}});
  const PlannedRun run = planned({}, beside);
  EXPECT_FALSE(run.plan.clip);
  EXPECT_THAT(run.flags,
              Contains("no clipping assumed: updates come before the norm of all gradients"));
  EXPECT_TRUE(planned({{"/optimizer/clip", true}}, beside).plan.clip);
}

TEST(RecordPrecision, ElementTypesAreThoseStated) {
  const PlannedRun run = planned({{"/precision/gradients", "bf16"},
                                  {"/precision/moments", "bf16"},
                                  {"/precision/master", "fp32"}});
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.plan.precision.grad, DType::kBf16);
  EXPECT_EQ(run.plan.precision.moments, DType::kBf16);
  EXPECT_EQ(run.plan.precision.master, DType::kF32);
  EXPECT_TRUE(run.plan.precision.separate_master);
  EXPECT_EQ(planned({{"/precision/reduction", "bf16"}}).plan.precision.grad, DType::kBf16)
      << "Megatron-LM adds up what it reduces";
  EXPECT_EQ(planned({{"/precision/moments", "fp8"}}).unsupported, "not modelled: moments in fp8");
}

TEST(RecordPrecision, GradientsOfFsdpAreReducedInTheStatedType) {
  const auto cast = [](const char* type) {
    const PlannedRun run = planned({{"/precision/reduction", type}}, sharded());
    EXPECT_EQ(run.unsupported, "");
    return run.plan.precision.grad_cast;
  };
  EXPECT_EQ(cast("bf16"), GradientCast::kAfterReduction);
  EXPECT_EQ(cast("fp32"), GradientCast::kBeforeReduction);
}

TEST(RecordPrecision, FormatsThatNoKernelHasRefuse) {
  EXPECT_EQ(planned({{"/precision/compute", "mxfp8"}}).unsupported,
            "fused kernels in mxfp8 for H100-SXM5-80GB");
  EXPECT_THAT(planned({{"/precision/compute", "fp8"}, {"/precision/fp8/attention", true}}).flags,
              Contains("attention in 16 bits instead of fp8"));
  EXPECT_EQ(planned({{"/optimizer/kind", "lamb"}}).unsupported, "not modelled: optimizer lamb");
}

// Transformer Engine's modules keep codes, PyTorch's the inputs themselves.
TEST(RecordPrecision, InputsAreKeptAsTheSoftwareKeepsThem) {
  const auto keeps = [](std::initializer_list<std::pair<const char*, Json>> changes,
                        const Json& record = base()) {
    return planned(changes, record).plan.low_precision.keeps_codes;
  };
  EXPECT_TRUE(keeps({{"/precision/compute", "fp8"}}));
  EXPECT_FALSE(keeps({{"/precision/compute", "bf16"}}));
  EXPECT_FALSE(keeps({{"/precision/compute", "fp8"}, {"/software/name", "torchtitan"}}));
  EXPECT_FALSE(keeps({{"/precision/compute", "fp8"}, {"/precision/fp8/activations", false}}));
  const PlannedRun blocks =
      planned({{"/precision/compute", "fp8"}, {"/precision/fp8/recipe", "blockwise"}});
  EXPECT_EQ(blocks.plan.kernel_set, "cuda.sm90.fp8_block");
}

// Weights in bf16 have codes beside them, both ways; those that are codes alone have none.
TEST(RecordPrecision, CodesOfWeightsAreMemory) {
  const auto predicted = [](bool gathers) {
    const auto run =
        read(with(base(), {{"/precision/compute", "fp8"}, {"/precision/fp8/gathers", gathers}}));
    return *evaluate(*run, catalogues()).predicted_gib;
  };
  const double matrices = 8 * (4.0 * 1024 * 1024 + 3 * 1024 * 4096) / 2;  // of a rank of two
  EXPECT_NEAR(predicted(false) - predicted(true), 2 * matrices / 0x1p30, 0.02);
}

TEST(RecordRecompute, WhatIsNotStatedDecidesWhetherARunFits) {
  const auto fits = [](const Json& record) { return evaluate(*read(record), catalogues()).fits; };
  const Json large = with(base(), {{"/micro_batch", 128},
                                   {"/global_batch", 512},
                                   {"/model/layers", 32},
                                   {"/measured/memory_gib", 70}});
  EXPECT_EQ(fits(base()), true);
  EXPECT_EQ(fits(large), std::nullopt);
  EXPECT_EQ(fits(with(large, {{"/recompute/mode", "none"}})), false);
}

TEST(RecordRecompute, ModulesAreOperatorsOfTheLayersThatHaveThem) {
  const PlannedRun dense = planned({{"/recompute/modules", {"mlp", "layernorm"}}});
  ASSERT_EQ(dense.plan.recompute.size(), 1u);
  EXPECT_EQ(dense.plan.recompute[0].operators, (OperatorSet{kNorm, kFc1, kActivation}));
  const PlannedRun mixed = planned({{"/recompute/modules", {"mlp", "moe_act"}}}, experts());
  ASSERT_EQ(mixed.unsupported, "");
  ASSERT_EQ(mixed.plan.recompute.size(), 2u);
  EXPECT_EQ(mixed.plan.recompute[0].layers, 2) << "those without experts";
  EXPECT_EQ(mixed.plan.recompute[0].operators, (OperatorSet{kFc1, kActivation}));
  EXPECT_EQ(mixed.plan.recompute[1].operators, OperatorSet{kActivation});
  const PlannedRun whole = planned({{"/recompute/modules", {"moe"}}}, experts());
  ASSERT_EQ(whole.plan.recompute.size(), 2u);
  EXPECT_EQ(whole.plan.recompute[0].mode, Recompute::kNone) << "layers without experts";
  EXPECT_EQ(whole.plan.recompute[1].operators, OperatorSet{kExperts});
}

TEST(RecordRecompute, NoModuleIsPassedOverInSilence) {
  for (const char* pointer : {"/recompute/modules", "/offload/activation_modules"}) {
    for (const std::string& module : parts_of(kLayerModules)) {
      const PlannedRun plain = planned({{"/recompute/mode", "selective"}}, experts());
      const PlannedRun none = planned({{"/recompute/mode", "none"}}, experts());
      const PlannedRun run =
          planned({{"/recompute/mode", "selective"}, {pointer, {module}}}, experts());
      const bool flagged = std::ranges::any_of(
          run.flags, [&](const std::string& flag) { return flag.starts_with(module); });
      const bool changed = run.plan != plain.plan && run.plan != none.plan;
      EXPECT_TRUE(flagged || changed || !run.unsupported.empty()) << pointer << ' ' << module;
    }
  }
}

TEST(RecordRecompute, FullGoesBeforeModulesThatAreAPartOfALayer) {
  const PlannedRun dump =
      planned({{"/recompute/mode", "full"}, {"/recompute/modules", {"core_attn"}}});
  EXPECT_TRUE(dump.plan.all_full());
  EXPECT_THAT(dump.flags, Contains("whole layers recomputed, whatever modules are named"));
  const PlannedRun all =
      planned({{"/recompute/mode", "full"}, {"/recompute/modules", {"mlp", "self_attn", "norm"}}});
  EXPECT_FALSE(all.plan.all_full()) << "each from its own input";
  EXPECT_THAT(
      planned({{"/recompute/mode", "selective"}, {"/recompute/modules", {"moe_act"}}}).flags,
      Contains("moe_act not recomputed by itself"))
      << "a model without experts";
}

TEST(RecordRecompute, WhatLeavesTheGpuIsWhatTheRecordNames) {
  const PlannedRun run = planned({{"/offload/activation_modules", {"act"}}});
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.plan.recompute[0].on_cpu, OperatorSet{kActivation});
  EXPECT_EQ(run.plan.placement.activations, Tier::kGpu);
  const PlannedRun both =
      planned({{"/offload/activation_modules", {"act", "qkv"}}, {"/recompute/modules", {"act"}}});
  ASSERT_EQ(both.unsupported, "");
  EXPECT_EQ(both.plan.recompute[0].operators, OperatorSet{kActivation});
  EXPECT_EQ(both.plan.recompute[0].on_cpu, OperatorSet{kQkv}) << "what is recomputed is not kept";
  const PlannedRun inputs =
      planned({{"/offload/activation_modules", {"layer_inputs"}}, {"/recompute/mode", "full"}});
  EXPECT_EQ(inputs.plan.placement.activations, Tier::kCpu);
}

TEST(RecordParallel, ShardsRingsAndStagesAreAsStated) {
  const Json stages = with(base(), {{"/parallel/pp", 2}, {"/parallel/dp", 2}});
  EXPECT_THAT(planned({{"/pipeline/stage_layers", {5, 3}}}, stages).plan.stage_layers,
              ElementsAre(5, 3));
  EXPECT_THAT(planned({{"/pipeline/stage_layers", {8, 0}}}, stages).unsupported,
              HasSubstr("a stage of 0 layers; each needs at least 1"));
  EXPECT_EQ(planned({{"/pipeline/stage_layers", {3, 3, 2, 0}},
                     {"/pipeline/virtual_stages", 2},
                     {"/pipeline/schedule", "interleaved"}},
                    stages)
                .unsupported,
            "");
  EXPECT_EQ(planned({{"/parallel/reshard_after_forward", false}}, sharded()).plan.zero_stage, 2);
  EXPECT_EQ(planned({{"/parallel/optimizer_instances", 2}}).plan.parallel.shards, 2);
  const Json contexts = with(base(), {{"/parallel/cp", 2}, {"/parallel/dp", 2}});
  EXPECT_EQ(planned({}, contexts).plan.parallel.ring, 2);
  EXPECT_EQ(planned({{"/parallel/cp_communication", "a2a"}}, contexts).plan.parallel.ring, 1);
}

TEST(RecordParallel, LinksAreThoseOfTheStatedDomain) {
  const Json two =
      with(base(), {{"/hardware/nodes", 2}, {"/hardware/gpus", 16}, {"/parallel/dp", 8}});
  EXPECT_EQ(planned({{"/hardware/nvlink_domain", 16}}, two).cluster.fast_link_domain, 16);
  EXPECT_EQ(planned({{"/hardware/nvlink_domain", 8}}, two).cluster.fast_link_domain, 0);
  const TopologySpec shared =
      planned({{"/hardware/ports_per_gpu", 0.5}}, two).cluster.node.topology;
  const TopologySpec own = planned({}, two).cluster.node.topology;
  EXPECT_LT(shared.nics_per_switch, own.nics_per_switch);
  EXPECT_DOUBLE_EQ(shared.nic.capacity.value * shared.nics_per_switch,
                   own.nic.capacity.value * own.nics_per_switch);
}

TEST(RecordParallel, ADomainMayBeLargerThanWhatIsUsedOfIt) {
  const auto domain = [](int stated, int per_node, int nodes, Changes more = {}) {
    Json record = with(base(), {{"/hardware/nvlink_domain", stated},
                                {"/hardware/gpus_per_node", per_node},
                                {"/hardware/nodes", nodes},
                                {"/hardware/gpus", per_node * nodes},
                                {"/parallel/dp", per_node * nodes / 2},
                                {"/global_batch", 256}});
    const PlannedRun run = planned(more, record);
    EXPECT_EQ(run.unsupported, "");
    return run.cluster.domain();
  };
  EXPECT_EQ(domain(8, 4, 1), 4) << "half of a board";
  EXPECT_EQ(domain(8, 4, 2, {{"/hardware/system", "dgx_h100"}}), 4) << "half of two boards";
  EXPECT_EQ(domain(8, 4, 2), 8) << "two trays";
  EXPECT_EQ(domain(72, 4, 16), 64) << "part of a rack";
  EXPECT_EQ(domain(72, 4, 32), 64) << "as much of each of two racks";
  EXPECT_EQ(domain(4, 8, 2), 4) << "blocks of a node";
  const Json cut = with(base(), {{"/hardware/nvlink_domain", 12},
                                 {"/hardware/nodes", 3},
                                 {"/hardware/gpus", 24},
                                 {"/parallel/dp", 12}});
  EXPECT_EQ(planned({}, cut).unsupported, "not modelled: a domain of peer links that cuts nodes");
}

TEST(RecordParallel, EachGpuHasTheStatedPorts) {
  const Json two =
      with(base(), {{"/hardware/nodes", 2}, {"/hardware/gpus", 16}, {"/parallel/dp", 8}});
  const PlannedRun own = planned({{"/hardware/ports_per_gpu", 1}}, two);
  const PlannedRun many = planned({{"/hardware/ports_per_gpu", 4}}, two);
  const TopologySpec &one = own.cluster.node.topology, &four = many.cluster.node.topology;
  EXPECT_EQ(four.nics(), 4 * four.gpus());
  EXPECT_DOUBLE_EQ(four.nic.capacity.value * four.nics(), one.nic.capacity.value * one.nics());
  EXPECT_EQ(Topology(four).nics_of(0).size(), 4);
  const auto rounded = [](const PlannedRun& run) {
    return std::ranges::any_of(
        run.flags, [](const std::string& flag) { return flag.find(" instead of ") != flag.npos; });
  };
  EXPECT_FALSE(rounded(many));
  EXPECT_TRUE(rounded(planned({{"/hardware/ports_per_gpu", 0.01}}, two)));
}

TEST(RecordParallel, WhatWaitsInsteadOfOverlappingRefusesWhereThereIsSomethingToSend) {
  const Json contexts = with(base(), {{"/parallel/cp", 2}, {"/parallel/dp", 2}});
  const Json waits = with(contexts, {{"/overlap/context_parallel", false}});
  EXPECT_EQ(planned({}, waits).unsupported,
            "not modelled: context parallel ranks that wait for keys");
  EXPECT_EQ(planned({{"/parallel/cp_communication", "ulysses"}}, waits).unsupported, "");
  EXPECT_EQ(planned({{"/overlap/context_parallel", false}}).unsupported, "");
  EXPECT_EQ(planned({{"/overlap/pipeline", false}}).unsupported, "");
  const Json sharding = with(sharded(), {{"/parallel/sharding_software", "megatron_fsdp"}});
  const auto& others = "shards as the software of the profile has them";
  EXPECT_THAT(planned({}, sharding).flags, Contains(others));
  EXPECT_THAT(planned({{"/parallel/zero_stage", 0}}, sharding).flags, Not(Contains(others)));
}

TEST(RecordParallel, KeyHeadsAreRepeatedForRanksThatCutMore) {
  const PlannedRun run = planned({{"/model/kv_heads", 1}});
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.model.kv_heads, 2);
  EXPECT_THAT(run.flags, Contains("key-value heads, 1 in all, repeated for 2 ranks"));
  EXPECT_EQ(planned({{"/model/kv_heads", 4}}).model.kv_heads, 4);
}

TEST(RecordParallel, RanksWithWindowsExchangeHeadsWhereNobodySaysHow) {
  const Json contexts =
      with(base(), {{"/parallel/cp", 2}, {"/parallel/dp", 2}, {"/model/window/tokens", 256}});
  const PlannedRun run = planned({}, contexts);
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.plan.parallel.ring, 1);
  EXPECT_THAT(run.flags, Contains("context parallel ranks that exchange heads assumed"));
}

TEST(RecordParallel, WhatIsAssumedIsFlagged) {
  EXPECT_THAT(planned({{"/parallel/zero_stage", nullptr}}).flags, Contains("ZeRO stage 0 assumed"));
  EXPECT_THAT(planned({{"/global_batch", nullptr}}).flags,
              Contains("a global batch of one micro-step assumed"));
  EXPECT_THAT(planned({{"/model/ffn", nullptr}}).flags, Contains("an MLP of width 4096 assumed"));
  EXPECT_THAT(planned({{"/model/params", 70e9}}).flags,
              Contains(HasSubstr("70B parameters stated")));
  const Json two =
      with(base(), {{"/hardware/nodes", 2}, {"/hardware/gpus", 16}, {"/parallel/dp", 8}});
  EXPECT_THAT(planned({{"/hardware/network", "100 Gbit/s Ethernet"}}, two).flags,
              Contains(HasSubstr("a network as the system's")));
  EXPECT_THAT(planned({{"/hardware/network", "InfiniBand NDR"}}, two).flags,
              Not(Contains(HasSubstr("a network as the system's"))));
}

TEST(RecordParallel, APipelineRunsEmptyAsOftenAsStated) {
  const Json stages = with(base(), {{"/parallel/pp", 2}, {"/parallel/dp", 2}});
  EXPECT_EQ(planned({}, stages).plan.parallel.flushes, 1);
  EXPECT_EQ(planned({{"/pipeline/flushes", 4}}, stages).plan.parallel.flushes, 4);
  EXPECT_EQ(planned({{"/pipeline/flushes", 4}}).plan.parallel.flushes, 1) << "one stage";
}

TEST(RecordExperts, TheDomainOfTheClusterDecidesWhereNoneIsStated) {
  EXPECT_EQ(planned({{"/experts/in_nvlink_domain", true}}, experts()).unsupported, "");
  EXPECT_THAT(planned({{"/experts/in_nvlink_domain", false}}, experts()).unsupported,
              HasSubstr("/experts/in_nvlink_domain: expected true"));
}

TEST(RecordKernels, TheHeadIsCutIntoPiecesOfSoManyTokens) {
  EXPECT_EQ(planned({{"/kernels/head_chunk_tokens", 1024}}).plan.head_chunks, 4);
  EXPECT_EQ(planned({{"/kernels/head_chunk_tokens", 100}}).plan.head_chunks, 16)
      << "as many as a plan can say";
  EXPECT_GT(planned({{"/kernels/cross_entropy", "linear"}}).plan.head_chunks, 1);
}

TEST(RecordKernels, OneKernelKeepsNothingBetweenOperators) {
  constexpr int kHopper = 90;
  const auto kept = [](MemoryQuantity quantity, Changes changes) {
    return planned(changes, sharded()).cluster.memory.at(quantity, kHopper);
  };
  EXPECT_GT(kept(MemoryQuantity::kGated, {}), 0);
  EXPECT_EQ(kept(MemoryQuantity::kGated, {{"/kernels/fused_activation", true}}), 0);
  EXPECT_EQ(kept(MemoryQuantity::kRmsNorm, {{"/kernels/fused_norm", true}}), 0);
  EXPECT_EQ(kept(MemoryQuantity::kLoss, {{"/kernels/cross_entropy", "fused"}}), 0);
}

TEST(RecordKernels, TheLossMovesWhatItsKernelsDo) {
  const auto loss = [](Changes changes) { return planned(changes, sharded()).cluster.stack.loss; };
  EXPECT_LT(loss({{"/kernels/cross_entropy", "fused"}}), loss({}));
  EXPECT_DOUBLE_EQ(loss({{"/kernels/cross_entropy", "eager"}}), loss({}));
  EXPECT_DOUBLE_EQ(loss({{"/trained/objective", "rl"}}), 1.5 * loss({})) << "the entropy, too";
}

TEST(RecordKernels, GraphsOfSomeModulesLeaveTheOthersLaunches) {
  const double all = planned({}).cluster.stack.host_forward;
  const PlannedRun some = planned(
      {{"/software/cuda_graphs", true}, {"/software/graphed_modules", {"attn", "moe_router"}}});
  EXPECT_EQ(some.plan.launch, LaunchMode::kStream);
  EXPECT_DOUBLE_EQ(some.cluster.stack.host_forward, all / 2 * (1 - 0.27)) << "of the router, too";
  const PlannedRun both =
      planned({{"/software/cuda_graphs", true}, {"/software/graphed_modules", {"attn", "mlp"}}});
  EXPECT_EQ(both.plan.launch, LaunchMode::kGraph);
}

// Two gradients of 2 x 2048 tokens of 1024 elements of 2 bytes for each layer, cut over 2 ranks.
TEST(RecordKernels, GraphsOfSomeModulesHoldGradientsAndAPool) {
  const auto held = [](Changes changes) { return planned(changes).cluster.memory.graphs; };
  EXPECT_EQ(held({}), std::nullopt);
  EXPECT_EQ(held({{"/software/cuda_graphs", true}, {"/software/graphed_modules", {"attn"}}}),
            Bytes{8 * 2 * 2 * 2 * 2048 / 2 * 1024});
  EXPECT_EQ(held({{"/software/cuda_graphs", true},
                  {"/software/graphed_modules", {"attn"}},
                  {"/parallel/pp", 2},
                  {"/parallel/dp", 2}}),
            Bytes{0})
      << "stages share them";
}

TEST(RecordChecks, ContradictionsAreToldAtTheirKey) {
  const Json stages = with(base(), {{"/parallel/pp", 2}, {"/parallel/dp", 2}});
  const Json contexts = with(base(), {{"/parallel/cp", 2}, {"/parallel/dp", 2}});
  const std::tuple<Json, const char*, Json, const char*> cases[] = {
      {with(base(), {{"/parallel/pp", 4}, {"/parallel/dp", 1}}), "/pipeline/ends_count_as_layers",
       true, "do not come to 4 equal pieces"},
      {base(), "/pipeline/virtual_stages", 2, "expected 1 with pp 1"},
      {with(stages, {{"/pipeline/schedule", "gpipe"}}), "/pipeline/virtual_stages", 2,
       "expected 1 with schedule gpipe"},
      {with(stages, {{"/pipeline/schedule", "zb-v"}}), "/pipeline/virtual_stages", 4,
       "expected 2 with schedule zb-v"},
      {with(contexts, {{"/parallel/ring", 2}}), "/parallel/cp_communication", "ulysses",
       "/parallel/ring: expected 1 with ulysses"},
      {contexts, "/parallel/cp_communication", "a2a+p2p", "expected /parallel/ring beside it"},
      {base(), "/parallel/shard_group", 8, "expected at most the 4 replicas"},
      {with(base(), {{"/recompute/mode", "none"}}), "/recompute/layers", 4,
       "expected none where mode is none"},
      {with(base(), {{"/precision/gradients", "fp32"}}), "/precision/grad_bytes", 2,
       "expected 4 as of fp32"},
      {base(), "/software/fp8_rows", true, "expected false where products are in bf16"},
      {base(), "/model/padded_vocab", 1000, "expected at least vocab 32000"},
      {with(base(), {{"/offload/optimizer", "cpu"}}), "/optimizer/cpu_fraction", 0,
       "expected above 0"},
  };
  for (const auto& [record, pointer, value, says] : cases)
    EXPECT_THAT(complaint(with(record, {{pointer, value}})), HasSubstr(says)) << pointer;
}

TEST(RecordSequences, DocumentsOfOneLengthAreSequencesOfIt) {
  const PlannedRun run = planned({{"/sequences/document_tokens", 512}});
  EXPECT_EQ(run.plan.batch.sequence, 512);
  EXPECT_EQ(run.plan.batch.micro_batch, 8);
  EXPECT_EQ(run.plan.batch.global_batch, 128);
  const PlannedRun uneven = planned({{"/sequences/document_tokens", 700}});
  EXPECT_EQ(uneven.plan.batch.sequence, 512) << "the nearest that fill it, as ratios go";
  EXPECT_THAT(uneven.flags, Contains("documents of 700 tokens taken as of 512"));
}

TEST(RecordMemory, IsThatOfTheRankWhoseFigureItIs) {
  const Json stages = with(base(), {{"/parallel/pp", 2}, {"/parallel/dp", 2}, {"/micro_batch", 4}});
  const auto predicted = [&](const char* rank) {
    const auto run = read(with(stages, {{"/measured/memory_rank", rank}}));
    return *evaluate(*run, catalogues()).predicted_gib;
  };
  EXPECT_NE(predicted("first"), predicted("last"));
  EXPECT_EQ(predicted("highest"), std::max(predicted("first"), predicted("last")));
}

TEST(RecordMemory, AloneIsComparedOfDeterministicKernels) {
  const auto run = read(with(base(), {{"/software/deterministic", true}}));
  const RunResult result = evaluate(*run, catalogues());
  EXPECT_FALSE(result.has_time());
  EXPECT_TRUE(result.has_memory());
}

TEST(RecordModel, LaterLayersAreSaidByKeys) {
  const PlannedRun run = planned({{"/model/mla/query_rank", 256},
                                  {"/model/mla/key_value_rank", 128},
                                  {"/model/mla/nope_size", 64},
                                  {"/model/mla/rope_size", 32},
                                  {"/model/mla/value_size", 64},
                                  {"/model/qk_norm", true}});
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.model.latent->key_value_rank, 128);
  EXPECT_FALSE(run.model.qk_norm) << "latents have norms of their own";
  const ModelConfig windows = planned({{"/model/window/tokens", 128},
                                       {"/model/window/full_layers", 1},
                                       {"/model/rotary_fraction", 0.25},
                                       {"/model/padded_vocab", 32768}})
                                  .model;
  EXPECT_EQ(windows.layer.window, 128);
  EXPECT_EQ(windows.layer.rotary_size, 32);
  EXPECT_EQ(windows.vocab, 32768);
}

}  // namespace
}  // namespace zplan
