// Models whose features no architecture has together, and layers of two kinds in turn: their
// gradients are the slope of the loss, and every strategy trains them like one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>
#include <set>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/lower/blocks/decoder.h"
#include "planner/program/instances/edges.h"
#include "planner/program/verify/verify.h"
#include "tests/support/gradient_log.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::GradientLog;
using testing_support::Tensors;

// h 64, 4 heads, 4 layers; the members that differ are appended.
ModelConfig tiny(const std::string& features) {
  return parse_model(
      R"({"schema": "zplan.model/1", "name": "tiny-mixed", "layers": 4, "hidden": 64, "heads": 4,
          "ffn": 128, "vocab": 256, "sequence": 32, "tied_embeddings": false, "global_batch": 8,
          "source": "a test", )" +
          features + "}",
      "tiny-mixed.json");
}

struct Mixed {
  const char* name;
  const char* features;
  const char* of_every_second = nullptr;  // layer, where these differ
};
void PrintTo(const Mixed& model, std::ostream* out) { *out << model.name; }
constexpr Mixed kModels[] = {
    {"NoBiases", R"("biases": "none")"},
    {"RotaryPlainGrouped",
     R"("position": "rope", "rope_theta": 10000, "kv_heads": 2, "biases": "qkv", "head_size": 24)"},
    {"LearnedGatedRms", R"("norm": "rmsnorm", "gated_mlp": true, "kv_heads": 2)"},
    {"LlamaWithLayerNormWithoutPositions",
     R"("architecture": "llama", "norm": "layernorm", "position": "none", "kv_heads": 4)"},
    {"QueriesAndKeysNormalised",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "head_size": 24,
        "qk_norm": true)"},
    {"QueriesAndKeysNormalisedWithBiases", R"("qk_norm": true)"},
    {"LatentAttention",
     R"("architecture": "llama", "rope_theta": 10000, "q_lora_rank": 24, "kv_lora_rank": 16,
        "qk_nope_head_size": 12, "qk_rope_head_size": 8, "v_head_size": 20)"},
    {"LatentAttentionWithoutLatentOfQueries",
     R"("biases": "none", "kv_lora_rank": 20, "qk_nope_head_size": 8, "qk_rope_head_size": 4,
        "v_head_size": 8)"},
    {"Experts",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
        "experts_per_token": 2, "router_scale": 2.5)"},
    {"ExpertsWithASharedOneAndWeightsAsScored",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 8,
        "experts_per_token": 3, "shared_expert_ffn": 16, "router_renormalises": false,
        "balance_loss": 0.5)"},
    {"ExpertsByTheirSigmoids",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
        "experts_per_token": 2, "router_scores": "sigmoid", "balance_loss": 0.25)"},
    {"ExpertsWithABiasThatFollowsTheirLoads",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 8,
        "experts_per_token": 2, "router_scores": "sigmoid", "router_bias": true,
        "router_bias_rate": 0.01, "shared_expert_ffn": 16, "expert_every": 2, "expert_ffn": 24)"},
    {"ExpertsBesideAGatedOneThatIsShared",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "biases": "qkv",
        "experts": 4, "experts_per_token": 2, "shared_expert_ffn": 16, "shared_expert_gate": true,
        "router_renormalises": false)"},
    {"ExpertsOfFewerElements",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "gated_mlp": false,
        "activation": "squared_relu", "experts": 4, "experts_per_token": 2,
        "expert_latent_size": 24, "router_scores": "sigmoid", "shared_expert_ffn": 16)"},
    {"ExpertsOfFewerElementsAlone",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
        "experts_per_token": 2, "expert_latent_size": 40, "expert_every": 2, "expert_ffn": 24)"},
    {"OneExpertWithoutGate",
     R"("biases": "none", "experts": 4, "experts_per_token": 1, "router_renormalises": false)"},
    {"MlpAndExpertsInTurn", R"("biases": "none")",
     R"("biases": "qkv", "experts": 4, "experts_per_token": 2, "balance_loss": 0.1)"},
    {"PartOfAHeadTurnsBesideTheMlp",
     R"("position": "rope", "rope_theta": 10000, "rotary_size": 8, "activation": "gelu",
        "parallel_residual": "two_norms", "norm_epsilon": 1e-4)"},
    {"OneNormForBothBranches",
     R"("position": "rope", "rope_theta": 10000, "parallel_residual": "one_norm")"},
    {"UnusedPositionsAndRelu", R"("unused_positions": 2, "activation": "relu")"},
    {"SlopesOfHeadsAndANormOfEmbeddings",
     R"("position": "alibi", "embedding_norm": true, "head_size": 8)"},
    {"BothWaysWithMaskedTokens", R"("bidirectional": true, "attention_cap": 5)"},
    {"AnEncoderOfTwoLayers", R"("encoder_layers": 2, "scaled_embedding": true)"},
    {"AnEncoderWithoutPositions",
     R"("encoder_layers": 1, "position": "none", "biases": "qkv", "head_size": 8)"},
    {"AnEncoderOfLlamasLayers",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 4, "encoder_layers": 3,
        "attention_divisor": 3, "logit_cap": 2)"},
    {"AnEncoderWithBiasesByDistance",
     R"("architecture": "llama", "kv_heads": 4, "encoder_layers": 1, "rope_theta": 10000,
        "relative_buckets": 16, "relative_distance": 9, "attention_divisor": 1, "head_size": 12,
        "scaled_logits": true, "biases": "all")"},
    {"SumsOfNormalisedInputs",
     R"("residual_of_norm": true, "norm": "rmsnorm", "biases": "qkv", "activation": "silu")"},
    {"SumsOfNormalisedInputsWithExperts",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "residual_of_norm": true,
        "experts": 4, "experts_per_token": 2)"},
    {"AnEncoderWhoseSumsAreOfNormalisedInputs",
     R"("encoder_layers": 2, "residual_of_norm": true, "head_transform": true)"},
    {"SegmentsAndATransformedHead",
     R"("segments": 3, "head_transform": true, "activation": "gelu", "unused_positions": 2)"},
    {"MambaAndAttentionInTurns",
     R"("architecture": "llama", "position": "none", "kv_heads": 2, "layer_pattern": "M-*M",
        "mamba_heads": 8, "mamba_head_size": 8, "mamba_groups": 2, "mamba_state": 6,
        "mamba_chunk": 8)"},
    {"MambaWithExpertsBesideAttention",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "layer_pattern": "ME *E ME ME",
        "mamba_heads": 4, "mamba_head_size": 16, "mamba_groups": 2, "mamba_state": 16,
        "experts": 4, "experts_per_token": 2, "residual_factor": 0.5)"},
    {"MambaBeforeAModuleThatPredictsFurther",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "layer_pattern": "M*EE",
        "mamba_heads": 4, "mamba_head_size": 8, "mamba_groups": 2, "mamba_state": 8, "experts": 4,
        "experts_per_token": 2, "mtp_layers": 1)"},
    {"GatedDeltaNetsAndGatedAttention",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "layer_pattern": "G- *-",
        "attention_gate": true, "qk_norm": true, "delta_key_heads": 2, "delta_value_heads": 4,
        "delta_key_size": 12, "delta_value_size": 8, "delta_chunk": 12)"},
    {"KimiDeltaAttentionAndLatentAttention",
     R"("architecture": "llama", "position": "none", "layer_pattern": "K- *- K K-",
        "kda_heads": 4, "kda_head_size": 12, "kda_chunk": 12, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_nope_head_size": 12, "qk_rope_head_size": 8, "v_head_size": 20)"},
    {"MambaOfTheFirstKindAndAttention",
     R"("architecture": "llama", "position": "none", "kv_heads": 2, "layer_pattern": "S- *- S S-",
        "mamba1_inner": 48, "mamba1_state": 6, "mamba1_step_rank": 5)"},
    {"MambaBesideAttentionWithFactors",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "layer_pattern": "H- H M- *-",
        "mamba_heads": 8, "mamba_head_size": 8, "mamba_groups": 2, "mamba_state": 6,
        "mamba_chunk": 8, "mamba_b_factor": 1.5, "mamba_c_factor": 0.75, "mamba_out_factor": 0.5,
        "query_factor": 1.25, "mlp_up_factor": 0.625)"},
    {"GatedShortConvolutionsAndAttention",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "qk_norm": true,
        "layer_pattern": "C- *- C C-", "short_conv_width": 48, "short_conv_taps": 4)"},
    {"AnIndexerBesideLatentAttention",
     R"("architecture": "llama", "rope_theta": 10000, "q_lora_rank": 24, "kv_lora_rank": 16,
        "qk_nope_head_size": 12, "qk_rope_head_size": 8, "v_head_size": 20, "index_heads": 3,
        "index_head_size": 10, "index_keys": 7)"},
    {"LogitsScaled", R"("scaled_logits": true, "norm": "rmsnorm")"},
    {"NormsBehindBranchesAloneAndOfAllHeads",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 4, "head_size": 24,
        "only_post_norms": true, "qk_norm": true, "whole_qk_norm": true, "window": 6,
        "window_layers": 3, "full_layers": 1)"},
    {"NormsBehindBranchesAloneOfLayersInTurn",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "only_post_norms": true,
        "qk_norm": true, "window": 5, "full_layers": 1, "unturned_every": 2, "biases": "qkv")"},
    {"QueriesAndKeysNormalisedTogetherWithExperts",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 4, "qk_norm": true,
        "whole_qk_norm": true, "biases": "qkv", "experts": 4, "experts_per_token": 2)"},
    {"FactorsOfEmbeddingsBranchesAndLogits",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "embedding_square": 144,
        "residual_factor": 0.22, "logit_divisor": 1.2, "attention_divisor": 4096)"},
    {"FactorsOfBranchesWithExpertsAndPostNorms",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "residual_factor": 0.5,
        "experts": 4, "experts_per_token": 2)"},
    {"FactorsBehindPostNormsOfBothBranches",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "residual_factor": 0.75,
        "post_norms": true, "unturned_every": 4)"},
    {"NormsWithoutBiasInOneForBothBranches",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "norm": "layernorm_no_bias",
        "parallel_residual": "one_norm", "logit_divisor": 16, "window": 5, "window_layers": 3,
        "full_layers": 1, "unturned_every": 4)"},
    {"FixedNormsAndSquaredRelu",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "norm": "layernorm_fixed",
        "gated_mlp": false, "activation": "squared_relu", "residual_factor": 0.5)"},
    {"BiasesOfAttentionAndOfTheHead",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "biases": "attention",
        "head_bias": true, "norm": "layernorm", "experts": 4, "experts_per_token": 2)"},
    {"BiasesOfAllAndOfTheHeadInOneNormForBoth",
     R"("position": "rope", "rope_theta": 10000, "rotary_size": 8, "head_bias": true,
        "parallel_residual": "one_norm", "biases": "attention")"},
    {"BothWaysInWindowsWithABareFirstBranch",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 4, "bidirectional": true,
        "window": 4, "window_layers": 2, "full_layers": 1, "full_layers_first": true,
        "local_rope_theta": 100, "bare_first_branch": true, "embedding_norm": true,
        "head_transform": true, "norm": "layernorm_no_bias", "activation": "gelu")"},
    {"WindowsInTurnCapsAndPostNorms",
     R"("architecture": "llama", "rope_theta": 10000, "local_rope_theta": 100, "rope_stretch": 4,
        "kv_heads": 2, "head_size": 24, "qk_norm": true, "activation": "gelu_tanh",
        "post_norms": true, "scaled_embedding": true, "norm_epsilon": 1e-6, "attention_cap": 1,
        "logit_cap": 2, "attention_divisor": 3, "window": 5, "full_layers": 1)"},
    {"TwoOfThreeHaveAWindow",
     R"("window": 7, "window_layers": 2, "full_layers": 1, "norm": "rmsnorm", "biases": "qkv",
        "post_norms": true)"},
    {"SinksAndWindows",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "biases": "all",
        "attention_sinks": true, "window": 6, "full_layers": 1)"},
    {"SinksAlone", R"("attention_sinks": true, "kv_heads": 2, "attention_cap": 2)"},
    {"ExpertsBehindADenseLayerWithSinksAndWindowsInTurn",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
        "experts_per_token": 2, "dense_layers": 1, "expert_ffn": 24, "attention_sinks": true,
        "window": 6, "full_layers": 1)"},
    {"ExpertsInEverySecondLayerBesideASharedOne",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
        "experts_per_token": 2, "expert_every": 2, "expert_ffn": 24, "shared_expert_ffn": 16,
        "window": 6, "full_layers": 1)"},
    {"ExpertsInTheLastOfFourLayers",
     R"("biases": "none", "experts": 4, "experts_per_token": 1, "router_renormalises": false,
        "expert_every": 4, "dense_layers": 3, "expert_ffn": 24, "balance_loss": 0.25)"},
    {"ExpertsWithBiasesInEverySecondLayer",
     R"("experts": 4, "experts_per_token": 1, "dense_layers": 1, "expert_every": 2,
        "expert_ffn": 24, "activation": "relu", "balance_loss": 0.25)"},
    {"ExpertsWithBiasesAndLimitedGates",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "biases": "all", "experts": 4,
        "experts_per_token": 2, "activation": "quick_gelu", "activation_limit": 0.3,
        "up_offset": 1)"},
    {"ExpertsWithBiasesWithoutGateBehindADenseLayer",
     R"("experts": 4, "experts_per_token": 3, "dense_layers": 1, "expert_ffn": 24,
        "activation": "gelu", "balance_loss": 0.25)"},
    {"LimitedGatesOfAnMlp", R"("gated_mlp": true, "activation_limit": 0.125, "up_offset": 2)"},
    {"TwoModulesThatPredictFurtherTokens",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "mtp_layers": 2,
        "mtp_loss": 0.5)"},
    {"AModuleThatPredictsFurtherTokensBehindExperts",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
        "experts_per_token": 2, "dense_layers": 1, "expert_ffn": 24, "balance_loss": 0.25,
        "mtp_layers": 1)"},
    {"ExpertsBesideAttention",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
        "experts_per_token": 2, "shared_expert_ffn": 16, "parallel_residual": "one_norm")"},
    {"LatentAndGroupedInTurn",
     R"("architecture": "llama", "rope_theta": 10000, "kv_lora_rank": 16,
        "qk_nope_head_size": 12, "qk_rope_head_size": 8, "v_head_size": 16)",
     R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "qk_norm": true)"},
    {"PlainAndGatedInTurn", R"("biases": "qkv")",
     R"("norm": "rmsnorm", "gated_mlp": true, "kv_heads": 2, "head_size": 8, "biases": "none")"}};

Job lower_mixed(const Plan& plan, const Mixed& mixed) {
  std::vector<ModelConfig> kinds{tiny(mixed.features)};
  if (mixed.of_every_second != nullptr) kinds.push_back(tiny(mixed.of_every_second));
  const KernelSet& set = find_kernel_set(plan.kernel_set);
  Job job = mixed.of_every_second == nullptr
                ? lower_unordered(plan, Decoder(kinds[0], plan, set))
                : lower_unordered(plan, Decoder(kinds[0], kinds, plan, set));
  for (RankClass& rank_class : job.classes) derive_data_edges(rank_class.program);
  return job;
}

Plan one_rank(const std::string& kernel_set) {
  Plan plan = testing_support::base_plan(kernel_set, "tiny-mixed");
  plan.batch.micro_batch = testing_support::kGlobalBatch;
  return plan;
}

std::unique_ptr<testing_support::Trained> train(const Plan& plan, const Mixed& model,
                                                const exec::RunOptions& options) {
  auto trained = std::make_unique<testing_support::Trained>();
  trained->job = lower_mixed(plan, model);
  place(trained->job, {.slack = plan.slack});
  trained->result = testing_support::run_text(trained->job, options);
  return trained;
}

class ModelFeatures : public testing::TestWithParam<Mixed> {};

// A text of one sample gives every step the same batch, so that L(x + d) - L(x) is d times the mean
// of the gradients at both ends, up to third order in the step d [derived]. Where a value crosses
// a limit the slope jumps and the order is the second: limits are such that none is crossed. An
// indexer has a loss of its own, which no run prints.
constexpr std::string_view kIndexer = ".indexer.";
TEST_P(ModelFeatures, GradientsAreTheSlopeOfTheLoss) {
  const ModelConfig model = tiny(GetParam().features);
  if (model.layer.bidirectional || model.encoder_layers > 0)
    GTEST_SKIP() << "every step masks other tokens of the sample";
  if (model.moves_selection_bias()) GTEST_SKIP() << "what moves the bias is no gradient";
  const Plan plan = one_rank("cpu.f64");
  Job job = lower_mixed(plan, GetParam());
  place(job);
  std::vector<std::uint8_t> text;
  for (int i = 0; i <= plan.batch.sequence; ++i)
    text.push_back(static_cast<std::uint8_t>(i * i % 251));
  const exec::DataSource data(text, "one sample");
  GradientLog logs[2];
  exec::RunResult runs[3];
  for (int steps = 0; steps <= 2; ++steps) {
    exec::RunOptions options;
    options.steps = steps;
    options.train.learning_rate = 1e-7;
    if (steps > 0) options.observer = logs[steps - 1].observer(job, steps - 1);
    runs[steps] = exec::run(job, data, options);
  }
  const Tensors from = testing_support::tensors(job, runs[0]);
  const Tensors to = testing_support::tensors(job, runs[1]);
  const auto first = logs[0].tensors(job), second = logs[1].tensors(job);
  double change = 0;
  for (const auto& [tensor, values] : from) {
    double own = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      own += (to.at(tensor)[i] - values[i]) * (first.at(tensor)[i] + second.at(tensor)[i]) / 2;
    EXPECT_LT(own, 0) << tensor;
    if (tensor.find(kIndexer) == std::string::npos) change += own;
  }
  const auto total = [](const exec::StepResult& step) { return step.loss + step.balance_loss; };
  EXPECT_NEAR(total(runs[2].steps[1]) - total(runs[2].steps[0]), change, 1e-6 * std::abs(change));
}

using Change = std::function<void(Plan&)>;
const std::vector<std::pair<const char*, Change>>& strategies() {
  static const std::vector<std::pair<const char*, Change>> all = {
      {"ZeRO 3 by layer, full recomputation",
       [](Plan& p) {
         p.zero_stage = 3;
         p.parallel.dp = 2;
         p.gather = Gather::kLayer;
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"several layers at a time, all recomputed",
       [](Plan& p) {
         p.zero_stage = 2;
         p.parallel.dp = 2;
         p.gather = Gather::of_layers(2);
         p.recompute = {{Recompute::kFull, 2}, {Recompute::kNone, 0}};
       }},
      {"by operator, some of which are recomputed",
       [](Plan& p) {
         p.zero_stage = 3;
         p.parallel.dp = 2;
         p.recompute = {{Recompute::kOperators, 0, {LayerOperator::kNorm, LayerOperator::kFc1}}};
       }},
      {"tensor and sequence parallel, unfused attention",
       [](Plan& p) {
         p.kernel_set = "cpu.f64.unfused";
         p.parallel.tp = 2;
         p.parallel.dp = 2;
         p.parallel.sequence_parallel = true;
         p.recompute = {{Recompute::kSelective, 0}};
       }},
      {"tensor parallel, micro-batches added up",
       [](Plan& p) {
         p.parallel.tp = 2;
         p.zero_stage = 1;
       }},
      {"tensor parallel, in tiles, all recomputed",
       [](Plan& p) {
         p.zero_stage = 3;
         p.parallel.tp = 2;
         p.parallel.dp = 2;
         p.gather = Gather::in_tiles(2);
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"zero bubbles, tensor and sequence parallel",
       [](Plan& p) {
         p.schedule = Schedule::kZeroBubbleV;
         p.parallel.pp = 2;
         p.parallel.tp = 2;
         p.parallel.sequence_parallel = true;
         p.batch.micro_batch = 1;
       }},
      {"zero bubbles, in tiles",
       [](Plan& p) {
         p.schedule = Schedule::kZeroBubbleV;
         p.zero_stage = 3;
         p.parallel.pp = 2;
         p.parallel.dp = 2;
         p.gather = Gather::in_tiles(2);
         p.batch.micro_batch = 1;
       }},
      {"pipeline",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.dp = 2;
         p.zero_stage = 1;
       }},
      {"uneven stages",
       [](Plan& p) {
         p.parallel.pp = 2;
         p.parallel.dp = 2;
         p.zero_stage = 3;
         p.stage_layers = {1, 3};
       }},
      {"parts of sequences",
       [](Plan& p) {
         p.parallel.cp = 2;
         p.zero_stage = 3;
       }},
      {"parts of sequences, unfused attention, micro-batches added up",
       [](Plan& p) {
         p.kernel_set = "cpu.f64.unfused";
         p.parallel.cp = 2;
         p.zero_stage = 1;
         p.recompute = {{Recompute::kFull, 3}, {Recompute::kNone, 0}};
       }},
      {"a ring of parts of sequences",
       [](Plan& p) {
         p.parallel.cp = 2;
         p.parallel.ring = 2;
         p.zero_stage = 1;
       }},
      {"the attention replayed, two layers to a stage's chunk",
       [](Plan& p) {
         p.schedule = Schedule::kInterleaved;
         p.parallel.pp = 2;
         p.parallel.chunks = 2;
         p.batch.micro_batch = 2;
         p.recompute = {
             {Recompute::kOperators, 0, {LayerOperator::kAttention, LayerOperator::kProjection}}};
       }},
      {"tiles from storage",
       [](Plan& p) {
         p.zero_stage = 3;
         p.parallel.dp = 2;
         p.gather = Gather::in_tiles(2);
         p.placement = {Tier::kNvme, Tier::kCpu, Tier::kNvme, Tier::kGpu};
       }},
      {"experts on ranks of their own",
       [](Plan& p) {
         p.zero_stage = 3;
         p.parallel.dp = 4;
         p.parallel.ep = 2;
         p.expert_imbalance = 0;
         p.gather = Gather::kLayer;
         p.batch.micro_batch = 1;
         p.recompute = {{Recompute::kFull, 1}, {Recompute::kNone, 0}};
       }},
      {"experts dropped, tensor parallel",
       [](Plan& p) {
         p.capacity_factor = 1;
         p.parallel.dp = 2;
         p.parallel.ep = 2;
         p.expert_imbalance = 0;
         p.parallel.tp = 2;
         p.parallel.sequence_parallel = true;
       }},
      {"whole experts on tensor parallel ranks",
       [](Plan& p) {
         p.parallel.expert_tp = 1;
         p.parallel.ep = 2;
         p.expert_imbalance = 0;
         p.parallel.tp = 2;
         p.parallel.dp = 2;
         p.parallel.sequence_parallel = true;
         p.zero_stage = 1;
         p.recompute = {{Recompute::kFull, 1}, {Recompute::kNone, 0}};
       }},
      {"whole experts on tensor parallel ranks, some choices dropped, backward in two parts",
       [](Plan& p) {
         p.schedule = Schedule::kZeroBubbleV;
         p.capacity_factor = 1;
         p.parallel.expert_tp = 1;
         p.parallel.ep = 2;
         p.expert_imbalance = 0;
         p.parallel.tp = 2;
         p.parallel.pp = 2;
         p.parallel.sequence_parallel = true;
         p.batch.micro_batch = 1;
       }},
      {"whole experts on tensor parallel ranks, some choices of whole sequences dropped",
       [](Plan& p) {
         p.capacity_factor = 1;
         p.parallel.expert_tp = 1;
         p.parallel.ep = 2;
         p.expert_imbalance = 0;
         p.parallel.tp = 2;
         p.parallel.sequence_parallel = true;
         p.zero_stage = 2;
         p.batch.micro_batch = 4;
         p.recompute = {{Recompute::kFull, 0}};
       }},
      {"whole experts on tensor parallel ranks of several replicas, sharded, in a pipeline",
       [](Plan& p) {
         p.parallel.expert_tp = 1;
         p.parallel.ep = 4;
         p.expert_imbalance = 0;
         p.parallel.tp = 2;
         p.parallel.dp = 4;
         p.parallel.pp = 2;
         p.parallel.sequence_parallel = true;
         p.batch.micro_batch = 1;
         p.zero_stage = 3;
         p.recompute = {
             {Recompute::kOperators, 0, {LayerOperator::kFc1, LayerOperator::kActivation}}};
       }},
      {"fused neighbours", [](Plan& p) {
         p.kernel_set = "cpu.f64.fused";
         p.zero_stage = 2;
         p.parallel.dp = 2;
       }}};
  return all;
}

// Experts are gathered whole, one layer at a time behind dense ones, and their auxiliary loss is of
// whole sequences; rings take plain scores.
bool goes_with(const Plan& plan, const ModelConfig& model) {
  const bool is_of_experts = plan.parallel.ep > 1 || plan.capacity_factor > 0;
  if (plan.parallel.ring > 1 && !model.has_plain_scores()) return false;
  if (model.encoder_layers > 0 || model.mtp_layers > 0) return !illegal(plan, shape_of(model));
  if (model.has_states() && (plan.parallel.cp > 1 || plan.gather.tiles() > 1)) return false;
  if (model.index && plan.parallel.cp > 1) return false;
  if (!model.experts) return !is_of_experts;
  return plan.gather.tiles() == 1 && (plan.parallel.cp == 1 || !model.balances_experts()) &&
         (plan.unit_layers() == 1 || model.first_layers() == 0);
}

// What counts alone move is the same to the bit, and has moved.
void expect_equal_biases(const testing_support::Trained& got,
                         const testing_support::Trained& expected) {
  const Tensors from = testing_support::tensors(expected.job, expected.result);
  for (const auto& [name, values] : testing_support::tensors(got.job, got.result)) {
    if (!name.ends_with(".mlp.gate.bias")) continue;
    EXPECT_EQ(values, from.at(name)) << name;
    EXPECT_NE(*std::max_element(values.begin(), values.end()), 0) << name;
  }
}

bool has_experts(const Mixed& model) {
  if (tiny(model.features).experts) return true;
  return model.of_every_second != nullptr && tiny(model.of_every_second).experts;
}

// Which plans of a test are trained: each strategy with one model at least.
struct Tried {
  testing_support::Thinned legal_plans{testing_support::one_in(29)};
  std::set<std::string_view> strategies{};
};

void expect_like_one_rank(const Mixed& mixed, const TrainedChoice& trained, Tried& tried) {
  constexpr double kTolerance = 1e-10;
  const ModelConfig model = tiny(mixed.features);
  const ModelConfig of_every_second =
      mixed.of_every_second == nullptr ? model : tiny(mixed.of_every_second);
  exec::RunOptions options;
  options.steps = testing_support::steps_of(5);
  Plan alone = one_rank("cpu.f64");
  alone.train = trained;
  const auto expected = train(alone, mixed, options);
  for (const auto& [what, change] : strategies()) {
    SCOPED_TRACE(what);
    Plan plan = alone;
    plan.batch.micro_batch = 2;
    change(plan);
    if (!goes_with(plan, model.experts ? model : of_every_second)) continue;
    const std::int64_t pieces = plan.parallel.tp * plan.exchange_ranks() * plan.gather.tiles();
    const bool replays_scores = plan.recompute.front().mode == Recompute::kSelective;
    if (replays_scores && (model.layer.attention_sinks || model.index))
      plan.recompute = {{Recompute::kFull, 0}};
    if (model.kv_heads % pieces != 0 || of_every_second.kv_heads % pieces != 0) continue;
    const std::int64_t kinds = mixed.of_every_second == nullptr ? model.kind_layers() : 2;
    bool cuts_turns = false;
    for (std::int32_t piece = 0; piece < plan.pieces(); ++piece)
      cuts_turns = cuts_turns || plan.layers_of_piece(model.layers, piece) % kinds != 0;
    for (const RecomputeRun& run : plan.recompute)
      cuts_turns = cuts_turns || run.layers % kinds != 0;
    // Layers of a pattern need no whole turns, but for several that are replayed together.
    const bool one_by_one = plan.unit_layers() == 1 && plan.checkpoint_layers == 1;
    if (plan.gather.owned() && kinds > 1) continue;
    if (cuts_turns && !(model.has_pattern() && one_by_one)) continue;
    const bool is_first = tried.strategies.insert(what).second;
    if (tried.legal_plans.skips() && !is_first) continue;
    ASSERT_EQ(illegal(plan, shape_of(model.experts ? model : of_every_second)), std::nullopt);
    const auto got = train(plan, mixed, options);
    EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt);
    std::unique_ptr<testing_support::Trained> dropping;
    if (plan.capacity_factor > 0) {
      Plan one = alone;
      one.capacity_factor = plan.capacity_factor;
      dropping = train(one, mixed, options);
    }
    const auto& same = dropping ? dropping : expected;
    for (std::size_t i = 0; i < got->result.steps.size(); ++i) {
      const exec::StepResult &mine = got->result.steps[i], &theirs = same->result.steps[i];
      EXPECT_NEAR(mine.loss, theirs.loss, kTolerance);
      EXPECT_NEAR(mine.balance_loss, theirs.balance_loss, kTolerance);
      EXPECT_EQ(mine.dropped, theirs.dropped);
      EXPECT_EQ(mine.dropped > 0, plan.capacity_factor > 0);
    }
    if (model.moves_selection_bias() && !trained.has_lora()) expect_equal_biases(*got, *same);
    const auto worst =
        exec::largest_difference(got->job, got->result.memory, same->job, same->result.memory);
    if (worst) {
      EXPECT_NEAR(worst->first, worst->second, kTolerance) << worst->tensor;
    }
  }
}

TEST_P(ModelFeatures, EveryStrategyTrainsThemLikeOneRank) {
  static Tried tried;
  expect_like_one_rank(GetParam(), {}, tried);
}

// Each expert has factors of its own, which are where it is.
TEST_P(ModelFeatures, EveryStrategyTrainsTheFactorsOfExpertsLikeOneRank) {
  if (!has_experts(GetParam())) GTEST_SKIP() << "the model has none";
  static Tried tried;
  expect_like_one_rank(GetParam(), {.what = Trained::kLora, .rank = 4}, tried);
}

TEST_P(ModelFeatures, EveryStrategyTrainsFactorsBesideExpertsLikeOneRank) {
  if (!has_experts(GetParam())) GTEST_SKIP() << "the model has none";
  static Tried tried;
  const TrainedChoice trained{.what = Trained::kLora, .targets = LoraTargets::kAttention};
  expect_like_one_rank(GetParam(), trained, tried);
}

TEST_P(ModelFeatures, EveryStrategyTrainsLayersWithExpertsAloneLikeOneRank) {
  if (!has_experts(GetParam())) GTEST_SKIP() << "the model has none";
  static Tried tried;
  expect_like_one_rank(GetParam(), {.what = Trained::kLayers}, tried);
}

// The 260 parameters of a router do not fill its shards: what lies behind them is cleared too.
TEST(RouterBias, IsClearedApartFromTheTailOfItsUnit) {
  const Mixed model{"",
                    R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 2, "experts": 4,
                          "experts_per_token": 2, "router_bias": true)"};
  Plan plan = one_rank("cpu.f64");
  plan.batch.micro_batch = 2;
  plan.zero_stage = 3;
  plan.parallel.dp = 2;
  EXPECT_EQ(verify(lower_mixed(plan, model)), std::vector<std::string>{});
}

// Masks follow from what is dropped, not from where it lies.
class Dropout : public testing::TestWithParam<Mixed> {};

TEST_P(Dropout, DropsTheSameHoweverAStepIsCut) {
  constexpr double kTolerance = 1e-10;
  const ModelConfig model = tiny(GetParam().features);
  exec::RunOptions options;
  options.steps = testing_support::steps_of(3);
  const auto dropping = [](Plan& p) {
    p.kernel_set = "cpu.f64.unfused";
    p.dropout = true;
  };
  Plan alone = one_rank("cpu.f64.unfused");
  const auto without = train(alone, GetParam(), options);
  dropping(alone);
  const auto expected = train(alone, GetParam(), options);
  EXPECT_GT(std::abs(expected->result.steps[0].loss - without->result.steps[0].loss), 1e-6);
  for (const auto& [what, change] : strategies()) {
    SCOPED_TRACE(what);
    Plan plan = one_rank("cpu.f64.unfused");
    plan.batch.micro_batch = 2;
    change(plan);
    if (plan.parallel.ring > 1 || !goes_with(plan, model)) continue;
    dropping(plan);
    const std::int64_t pieces = plan.parallel.tp * plan.parallel.cp * plan.gather.tiles();
    if (model.kv_heads % pieces != 0) continue;
    ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
    const auto got = train(plan, GetParam(), options);
    for (std::size_t i = 0; i < got->result.steps.size(); ++i)
      EXPECT_NEAR(got->result.steps[i].loss, expected->result.steps[i].loss, kTolerance);
    const auto worst = exec::largest_difference(got->job, got->result.memory, expected->job,
                                                expected->result.memory);
    if (worst) {
      EXPECT_NEAR(worst->first, worst->second, kTolerance) << worst->tensor;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mixed, Dropout,
    testing::Values(Mixed{"Plain", R"("kv_heads": 4)"},
                    Mixed{"ParallelResidual", R"("parallel_residual": "two_norms", )"
                                              R"("embedding_norm": true)"},
                    Mixed{"PostNormsAndWindows",
                          R"("architecture": "llama", "rope_theta": 10000, "kv_heads": 4,
                             "post_norms": true, "window": 5, "full_layers": 1,
                             "attention_cap": 2)"}),
    [](const auto& model) { return std::string(model.param.name); });

INSTANTIATE_TEST_SUITE_P(Mixed, ModelFeatures, testing::ValuesIn(kModels),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace zplan
