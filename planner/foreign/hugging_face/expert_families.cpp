// Families with a mixture of experts.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/positions.h"
#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostExperts = 1 << 12, kMostChosen = 1 << 8;
constexpr std::int64_t kMostTurn = 64;  // layers
constexpr std::int64_t kMostWidth = 1 << 23, kMostRank = 1 << 20, kMostHead = 1 << 16;
constexpr double kMostFactor = 1000;

ExpertShape read_choice(ConfigKeys& keys) {
  ExpertShape experts;
  experts.count = keys.whole(spelt::kExperts, kMostExperts);
  experts.per_token = keys.whole(spelt::kPerToken, kMostChosen);
  return experts;
}

double balance_of(ConfigKeys& keys) { return keys.number_or(spelt::kBalance, 0, kMostFactor, 0); }

// The first layers that have an MLP instead: 0, 1, .. in that order.
std::int64_t first_dense(const JsonNode& list) {
  std::int64_t next = 0;
  for (const JsonNode& layer : list.items())
    if (layer.integer(0, kMostLayers) != next++)
      layer.fail_expected(fmt::format("{}: layers with an MLP are the first ones", next - 1));
  return next;
}

// Experts as DeepSeek's models have them; `usual_scores`: where the file does not say.
void read_deepseek_experts(ConfigKeys& keys, ModelConfig& model, std::string_view usual_scores) {
  ExpertShape experts = read_choice(keys);
  experts.ffn = keys.whole(spelt::kExpertWidth, kMostWidth);
  experts.dense_layers = keys.whole_or(spelt::kFirstDense, kMostLayers, 0);
  experts.shared_ffn =
      std::min(keys.whole_or(spelt::kShared, kMostChosen, 0) * experts.ffn, kMostWidth);
  if (const auto every = keys.stated({"moe_layer_freq"});
      every && whole_number(*every, 1, kMostLayers) != 1)
    every->fail_expected("1: all layers behind the first ones have experts");
  experts.renormalised = keys.flag(spelt::kRenormalised, false);
  experts.scale = keys.number_or(spelt::kScale, 0, kMostFactor, 1);
  experts.balance = balance_of(keys);
  const auto scores = keys.stated({"scoring_func"});
  const std::string word =
      scores ? scores->one_of({"softmax", "sigmoid"}) : std::string(usual_scores);
  experts.scores = word == "sigmoid" ? Scores::kSigmoid : Scores::kSoftmax;
  if (experts.dense_layers == 0) model.ffn = experts.ffn;
  model.experts = experts;
}

void read_deepseek(ConfigKeys& keys, ModelConfig& model, std::string_view usual_scores) {
  read_llama_layers(keys, model);
  read_latent(keys, model);
  read_deepseek_experts(keys, model, usual_scores);
}

void read_groups(ConfigKeys& keys, ExpertShape& experts) {
  experts.groups = std::max<std::int64_t>(1, keys.whole_or(spelt::kGroups, kMostExperts, 1));
  experts.groups_per_token =
      std::max<std::int64_t>(1, keys.whole_or(spelt::kGroupsPerToken, kMostExperts, 1));
}

// Experts of DeepSeek-V3 beside attention of Llama's kind.
void read_experts_of_v3(ConfigKeys& keys, ModelConfig& model) {
  read_deepseek_experts(keys, model, "sigmoid");
  read_groups(keys, *model.experts);
  add_choice_bias(keys, *model.experts);
  note_further_layers(keys);
}

// Experts are as wide as an MLP would be.
void read_experts_of_mlp(ConfigKeys& keys, ModelConfig& model) {
  ExpertShape experts = read_choice(keys);
  experts.ffn = model.ffn;
  experts.balance = balance_of(keys);
  model.experts = experts;
}

void read_mixtral(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_windows(keys, model, all_layers(model));
  read_rotary(keys, model);
  read_experts_of_mlp(keys, model);
}

// Windows, positions and experts of Qwen's models with experts.
void read_qwen_experts(ConfigKeys& keys, ModelConfig& model) {
  const auto window = keys.find(spelt::kWindow);
  if (keys.flag(spelt::kUsesWindow, false) && window) read_windows(keys, model, all_layers(model));
  for (const char* key : {"max_window_layers", "layer_types"}) keys.find({key});
  read_rotary(keys, model);
  ExpertShape experts = read_choice(keys);
  experts.ffn = keys.whole(spelt::kExpertWidth, kMostWidth);
  experts.renormalised = keys.flag(spelt::kRenormalised, false);
  experts.balance = balance_of(keys);
  const auto dense = keys.find(spelt::kDenseLayers);
  experts.every = keys.whole(spelt::kSparseStep, kMostTurn);
  experts.dense_layers = dense ? first_dense(*dense) : 0;
  if (experts.every > 1) {  // the last of each turn has experts
    if (experts.dense_layers > 0)
      dense->fail("expected no layers beside a decoder_sparse_step above 1, got some");
    experts.dense_layers = experts.every - 1;
  }
  if (experts.dense_layers == 0) model.ffn = experts.ffn;
  model.experts = experts;
}

void read_qwen3_moe(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.qk_norm = true;
  read_qwen_experts(keys, model);
}

void read_qwen2_moe(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  if (keys.flag({"qkv_bias"}, true)) model.biases = Biases::kQkv;
  read_qwen_experts(keys, model);
  model.experts->shared_ffn = keys.whole({"shared_expert_intermediate_size"}, kMostWidth);
  model.experts->shared_gate = true;
}

void read_granitemoe(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_rotary(keys, model);
  read_factors(keys, model);
  read_experts_of_mlp(keys, model);
}

void read_granitemoeshared(ConfigKeys& keys, ModelConfig& model) {
  read_granitemoe(keys, model);
  model.experts->shared_ffn = keys.whole_or(spelt::kSharedWidth, kMostWidth, 0);
}

void read_qwen3_vl_moe(ConfigKeys& keys, ModelConfig& model) {
  read_qwen3_moe(keys, model);
  model.experts->renormalised = true;  // whatever the file says
}

void read_gpt_oss(ConfigKeys& keys, ModelConfig& model) {
  constexpr double kLimitUnit = 1e9, kMostLimit = 1e6;
  constexpr double kSlope = 1.702;  // of the quick form of GELU [Hendrycks16 sec 2]
  set_architecture(model, Architecture::kLlama);
  read_sizes(keys, model);
  model.ffn = keys.whole(spelt::kWidth, kMostWidth);
  model.kv_heads = keys.whole_or(spelt::kKeyValueHeads, kMostHead, model.heads);
  model.own_head_size = keys.whole_or(spelt::kHeadSize, kMostHead, 0);
  keys.demand(spelt::kAttentionBias, true, true, "all linear layers have biases");
  keys.must(spelt::kActivation).one_of({"silu"});
  if (const auto slope = keys.find({"swiglu_alpha"});
      slope && slope->number(0, kMostLimit) != kSlope)
    slope->fail_expected("1.702, the slope of the quick form of GELU");
  model.biases = Biases::kAll;
  LayerFeatures& layer = model.layer;
  layer.activation = Activation::kQuickGelu;
  layer.activation_limit =
      static_cast<std::int64_t>(keys.number_or(spelt::kLimit, 0, kMostLimit, 0) * kLimitUnit);
  layer.up_offset = 1;
  layer.attention_sinks = true;
  read_windows(keys, model, but_every(model, 2));
  read_rotary(keys, model);
  ExpertShape experts = read_choice(keys);
  experts.ffn = model.ffn;
  if (balance_of(keys) > 0)
    keys.note("router_aux_loss_coef is left out: no loss of balance is published of its training");
  model.experts = experts;
}

void read_deepseek_v2(ConfigKeys& keys, ModelConfig& model) {
  read_deepseek(keys, model, "softmax");
  const std::string method = keys.must(spelt::kMethod).one_of({"greedy", "group_limited_greedy"});
  if (method == "group_limited_greedy") read_groups(keys, *model.experts);
  for (const char* key : {"n_group", "topk_group", "seq_aux"}) keys.find({key});
  read_rotary(keys, model);
}

void read_deepseek_v3(ConfigKeys& keys, ModelConfig& model) {
  read_deepseek(keys, model, "sigmoid");
  if (const auto method = keys.stated(spelt::kMethod)) method->one_of({"noaux_tc"});
  read_groups(keys, *model.experts);
  add_choice_bias(keys, *model.experts);
  keys.find({"seq_aux"});
  note_further_layers(keys);
  read_rotary(keys, model);
}

// Lists of words, one for each layer: all layers have an indexer, and the first ones an MLP.
void demand_words(ConfigKeys& keys, std::string_view list, std::int64_t first,
                  std::string_view word, std::string_view others, std::string_view why) {
  const auto node = keys.stated({list});
  if (!node) return;
  std::int64_t i = 0;
  for (const JsonNode& layer : node->items()) {
    const std::string_view expected = i++ < first ? word : others;
    if (layer.string() != expected) layer.fail_expected(fmt::format("\"{}\": {}", expected, why));
  }
}

// DeepSeek-V3 with an indexer in each layer.
void read_deepseek_v32(ConfigKeys& keys, ModelConfig& model) {
  read_deepseek_v3(keys, model);
  model.index = IndexShape{.heads = keys.whole(spelt::kIndexHeads, kMostExperts),
                           .head_size = keys.whole(spelt::kIndexHeadSize, kMostExperts),
                           .keys = keys.whole(spelt::kIndexKeys, kMostRank)};
  constexpr std::string_view kOwn = "each layer has an indexer of its own";
  demand_words(keys, "indexer_types", 0, "full", "full", kOwn);
  if (const auto every = keys.stated({"index_topk_freq"});
      every && whole_number(*every, 1, kMostLayers) != 1)
    every->fail_expected(fmt::format("1: {}", kOwn));
  if (const auto pattern = keys.stated({"index_topk_pattern"}))
    pattern->fail_expected(fmt::format("null: {}", kOwn));
  for (const char* key :
       {"indexer_rope_interleave", "index_skip_topk_offset", "index_share_for_mtp_iteration"})
    keys.find({key});
  keys.note(
      "its indexers learn from a loss of their own, as the paper has it; the class of transformers "
      "leaves them as they are");
}

void read_glm_moe_dsa(ConfigKeys& keys, ModelConfig& model) {
  read_deepseek_v32(keys, model);
  demand_words(keys, "mlp_layer_types", model.experts->dense_layers, "dense", "sparse",
               "layers with an MLP are the first ones");
  for (const char* key : {"head_dim", "qk_head_dim", "moe_router_dtype"}) keys.find({key});
}

void read_glm4_moe(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  if (keys.flag(spelt::kAttentionBias, false)) model.biases = Biases::kQkv;
  model.qk_norm = keys.flag({"use_qk_norm"}, false);
  read_rotary(keys, model);
  read_experts_of_v3(keys, model);
}

void read_dots1(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  keys.demand(spelt::kAttentionBias, false, false, "linear layers have no biases");
  model.qk_norm = true;
  read_windows_from(keys, model, keys.whole_or({"max_window_layers"}, kMostSize, 0));
  read_rotary(keys, model);
  read_experts_of_v3(keys, model);
}

void read_ernie4_5_moe(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  keys.demand({"use_bias"}, false, false, "linear layers have no biases");
  read_rotary(keys, model);
  ExpertShape experts;
  experts.count = keys.whole({"moe_num_experts"}, kMostExperts);
  experts.per_token = keys.whole({"moe_k"}, kMostChosen);
  experts.ffn = keys.whole(spelt::kExpertWidth, kMostWidth);
  experts.shared_ffn =
      std::min(keys.whole_or({"moe_num_shared_experts"}, kMostChosen, 0) * experts.ffn, kMostWidth);
  experts.dense_layers = keys.whole_or({"moe_layer_start_index"}, kMostLayers, 0);
  if (const auto last = keys.stated({"moe_layer_end_index"});
      last && whole_number(*last, -1, kMostLayers) != -1 &&
      last->integer(0, kMostLayers) < model.layers - 1)
    last->fail_expected(
        fmt::format("-1 or {}: all layers behind the first ones have experts", model.layers - 1));
  if (const auto every = keys.stated({"moe_layer_interval"});
      every && whole_number(*every, 1, kMostLayers) != 1)
    every->fail_expected("1: all layers behind the first ones have experts");
  experts.balance = balance_of(keys);
  experts.selection_bias = true;
  if (experts.dense_layers == 0) model.ffn = experts.ffn;
  model.experts = experts;
}

void read_llama4_text(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_rotary(keys, model);
  ExpertShape experts = read_choice(keys);
  experts.ffn = experts.shared_ffn = model.ffn;
  experts.every = keys.whole(spelt::kInterleave, kMostTurn);
  experts.dense_layers = experts.every - 1;
  experts.scores = Scores::kSigmoid;
  experts.renormalised = false;
  experts.balance = balance_of(keys);
  if (experts.dense_layers > 0) model.ffn = keys.whole(spelt::kDenseWidth, kMostWidth);
  model.experts = experts;
  if (const auto chosen = keys.stated({"moe_layers"}))
    chosen->fail("expected interleave_moe_layer_step alone, got a list of layers");
  keys.note("all layers have rotary positions, every fourth of its own has none");
  keys.note("scores weigh what experts give, not what they are given");
  keys.note("all tokens are seen, not those of the same chunk of attention_chunk_size only");
}

void read_minimax_m2(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  model.qk_norm = model.layer.whole_qk_norm = true;
  keys.demand({"use_qk_norm"}, true, true, "queries and keys are normalised");
  if (const auto kind = keys.stated({"qk_norm_type"})) kind->one_of({"per_layer"});
  read_rotary(keys, model);
  if (const auto turning = keys.stated({"rotary_dim"}))
    if (const auto size = whole_number(*turning, 1, kMostHead); size != model.head_size())
      model.layer.rotary_size = size;
  ExpertShape experts = read_choice(keys);
  experts.ffn = model.ffn;
  experts.scores = Scores::kSigmoid;
  if (const auto scores = keys.stated({"scoring_func"})) scores->one_of({"sigmoid"});
  if (const auto shared = keys.stated({"shared_intermediate_size"});
      shared && whole_number(*shared, 0, kMostWidth) != 0)
    shared->fail_expected("0: no expert is shared by all tokens");
  keys.demand({"use_routing_bias"}, true, true, "routers choose by a bias, too");
  add_choice_bias(keys, experts);
  model.experts = experts;
  for (const char* key : {"use_mtp", "mtp_transformer_layers"}) keys.find({key});
  note_further_layers(keys);
}

void read_olmoe(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  if (keys.flag(spelt::kAttentionBias, false)) model.biases = Biases::kAttention;
  if (const auto most = keys.find({"clip_qkv"}))
    most->fail_expected("null: queries, keys and values are not clipped");
  model.qk_norm = model.layer.whole_qk_norm = true;
  read_rotary(keys, model);
  ExpertShape experts = read_choice(keys);
  experts.ffn = model.ffn;
  experts.renormalised = keys.flag(spelt::kRenormalised, false);
  experts.balance = balance_of(keys);
  model.experts = experts;
}

void read_phimoe(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  model.norm = Norm::kLayerNorm;
  if (keys.flag(spelt::kAttentionBias, false)) model.biases = Biases::kAttention;
  model.layer.head_bias = keys.flag({"lm_head_bias"}, false);
  read_windows(keys, model, all_layers(model));
  read_rotary(keys, model);
  read_experts_of_mlp(keys, model);
  keys.find({"input_jitter_noise"});
  keys.note(
      "each token goes to the experts with the best scores, of which its weights are a softmax; in "
      "training its class chooses by chance (sparse mixing): other numbers, as many bytes and "
      "flop");
}

constexpr Family kExpertFamilies[] = {
    {"mixtral", "MixtralDecoderLayer", read_mixtral},
    {"deepseek_v2", "DeepseekV2DecoderLayer", read_deepseek_v2},
    {"deepseek_v3", "DeepseekV3DecoderLayer", read_deepseek_v3},
    {"deepseek_v32", "DeepseekV32DecoderLayer", read_deepseek_v32},
    {"dots1", "Dots1DecoderLayer", read_dots1},
    {"ernie4_5_moe", "Ernie4_5_MoeDecoderLayer", read_ernie4_5_moe},
    {"glm4_moe", "Glm4MoeDecoderLayer", read_glm4_moe},
    {"glm4v_moe_text", "Glm4vMoeTextDecoderLayer", read_glm4_moe, "glm4_moe"},
    {"glm_moe_dsa", "GlmMoeDsaDecoderLayer", read_glm_moe_dsa},
    {"gpt_oss", "GptOssDecoderLayer", read_gpt_oss},
    {"granitemoe", "GraniteMoeDecoderLayer", read_granitemoe},
    {"granitemoeshared", "GraniteMoeSharedDecoderLayer", read_granitemoeshared},
    {"kimi_k2", "DeepseekV3DecoderLayer", read_deepseek_v3, "deepseek_v3"},
    {"llama4_text", "Llama4TextDecoderLayer", read_llama4_text},
    {"minimax_m2", "MiniMaxM2DecoderLayer", read_minimax_m2},
    {"olmoe", "OlmoeDecoderLayer", read_olmoe},
    {"phimoe", "PhimoeDecoderLayer", read_phimoe},
    {"qwen2_moe", "Qwen2MoeDecoderLayer", read_qwen2_moe},
    {"qwen3_moe", "Qwen3MoeDecoderLayer", read_qwen3_moe},
    {"qwen3_vl_moe_text", "Qwen3VLMoeTextDecoderLayer", read_qwen3_vl_moe, "qwen3_moe"},
};

}  // namespace

void read_latent(ConfigKeys& keys, ModelConfig& model) {
  model.latent = LatentShape{.query_rank = keys.whole_or(spelt::kQueryRank, kMostRank, 0),
                             .key_value_rank = keys.whole(spelt::kKeyValueRank, kMostRank),
                             .nope_size = keys.whole(spelt::kNopeSize, kMostHead),
                             .rope_size = keys.whole(spelt::kRopeSize, kMostHead),
                             .value_size = keys.whole(spelt::kValueSize, kMostHead)};
  model.own_head_size = 0;
  model.kv_heads = model.heads;
}

void add_choice_bias(ConfigKeys& keys, ExpertShape& experts) {
  experts.selection_bias = true;
  keys.note(
      "the bias by which its routers choose counts among the parameters, as in published weights; "
      "the class of transformers has it as a buffer");
}

void note_further_layers(ConfigKeys& keys) {
  if (const auto more =
          keys.stated({"num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules"});
      more && whole_number(*more, 0, kMostLayers) > 0)
    keys.note(
        fmt::format("{} is left out, as transformers does: the layers that predict further tokens, "
                    "with their parameters; a model file of zplan states them as mtp_layers",
                    more->pointer()));
}

std::span<const Family> expert_families() { return kExpertFamilies; }

}  // namespace zplan
