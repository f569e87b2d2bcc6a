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
  EXPECT_EQ(lora({"q", "v"}).unsupported, "not modelled: LoRA of q, v alone");
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

TEST(RecordExperts, RoutingThatNobodyForcesIsTakenAsEvenAndSaidToBe) {
  const PlannedRun forced = planned({{"/experts/routing", "balanced"}}, experts());
  EXPECT_EQ(forced.plan.expert_imbalance, 1);
  EXPECT_TRUE(forced.stack_stated);
  const PlannedRun trained = planned({{"/experts/routing", "trained"}}, experts());
  EXPECT_EQ(trained.plan.expert_imbalance, 1);
  EXPECT_THAT(trained.flags, Contains("work of experts taken as even"));
  EXPECT_FALSE(trained.stack_stated);
}

TEST(RecordExperts, TheExchangeIsNoneWhereRanksHaveAllOfThem) {
  EXPECT_EQ(planned({{"/overlap/exchange", true}}, experts()).unsupported,
            "not modelled: the exchange of experts beside compute");
  EXPECT_EQ(
      planned(
          {{"/overlap/exchange", true}, {"/experts/dispatcher", "allgather"}, {"/parallel/ep", 1}},
          experts())
          .unsupported,
      "");
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
            "not modelled: products in mxfp8");
  EXPECT_EQ(
      planned({{"/precision/compute", "fp8"}, {"/precision/fp8/attention", true}}).unsupported,
      "not modelled: attention in fp8");
  EXPECT_EQ(planned({{"/optimizer/kind", "lamb"}}).unsupported, "not modelled: optimizer lamb");
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

TEST(RecordRecompute, WhatLeavesTheGpuIsWhatTheRecordNames) {
  const PlannedRun run = planned({{"/offload/activation_modules", {"act"}}});
  ASSERT_EQ(run.unsupported, "");
  EXPECT_EQ(run.plan.recompute[0].on_cpu, OperatorSet{kActivation});
  EXPECT_EQ(run.plan.placement.activations, Tier::kGpu);
  const PlannedRun inputs =
      planned({{"/offload/activation_modules", {"layer_inputs"}}, {"/recompute/mode", "full"}});
  EXPECT_EQ(inputs.plan.placement.activations, Tier::kCpu);
}

TEST(RecordParallel, ShardsRingsAndStagesAreAsStated) {
  const Json stages = with(base(), {{"/parallel/pp", 2}, {"/parallel/dp", 2}});
  EXPECT_THAT(planned({{"/pipeline/stage_layers", {5, 3}}}, stages).plan.stage_layers,
              ElementsAre(5, 3));
  EXPECT_EQ(planned({{"/pipeline/stage_layers", {8, 0}}}, stages).unsupported,
            "not modelled: a pipeline stage without layers");
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

TEST(RecordParallel, ALayoutAloneDoesNotSayTheLayersOfStages) {
  const Json stages = with(base(), {{"/parallel/pp", 2}, {"/parallel/dp", 2}});
  const Json layout = with(stages, {{"/pipeline/layout", "Et*5|t*3L"}});
  EXPECT_EQ(planned({}, layout).unsupported,
            "not modelled: a pipeline layout without the layers of its stages");
  EXPECT_EQ(planned({{"/pipeline/stage_layers", {5, 3}}}, layout).unsupported, "");
  EXPECT_EQ(planned({{"/pipeline/layout", "Et*8L"}}).unsupported, "") << "one stage";
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
  EXPECT_EQ(planned({}, sharding).unsupported,
            "not modelled: shards of other software than the profile's");
  EXPECT_EQ(planned({{"/parallel/zero_stage", 0}}, sharding).unsupported, "");
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
  EXPECT_DOUBLE_EQ(some.cluster.stack.host_forward, all / 2);
  const PlannedRun both =
      planned({{"/software/cuda_graphs", true}, {"/software/graphed_modules", {"attn", "mlp"}}});
  EXPECT_EQ(both.plan.launch, LaunchMode::kGraph);
}

TEST(RecordSequences, DocumentsOfOneLengthAreSequencesOfIt) {
  const PlannedRun run = planned({{"/sequences/document_tokens", 512}});
  EXPECT_EQ(run.plan.batch.sequence, 512);
  EXPECT_EQ(run.plan.batch.micro_batch, 8);
  EXPECT_EQ(run.plan.batch.global_batch, 128);
  EXPECT_EQ(planned({{"/sequences/document_tokens", 700}}).plan.batch.sequence, 2048)
      << "three documents do not fill it";
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
