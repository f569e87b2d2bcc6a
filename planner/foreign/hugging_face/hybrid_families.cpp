// Families whose layers have mixers with a state: Mamba-2 [Dao24], Mamba-1 [Gu23], gated delta nets
// [Yang24b] or Kimi delta attention [KimiTeam25].
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/positions.h"
#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostHeads = 1 << 16, kMostOfAHead = 1 << 12, kMostConvolution = 8;
constexpr std::int64_t kMostOfExperts = 1 << 12, kMostColumns = 1 << 23;
constexpr double kMostScale = 1e6;

// Mamba-2 under the names of one family.
struct MambaNames {
  Names heads, head_size, groups, state, conv, chunk, bias, conv_bias;
};
constexpr MambaNames kOfNemotron{{"mamba_num_heads"}, {"mamba_head_dim"}, {"n_groups"},
                                 {"ssm_state_size"},  {"conv_kernel"},    {"chunk_size"},
                                 {"mamba_proj_bias"}, {"use_conv_bias"}};
constexpr MambaNames kOfMamba2{{"num_heads"},   {"head_dim"},   {"n_groups"}, {"state_size"},
                               {"conv_kernel"}, {"chunk_size"}, {"use_bias"}, {"use_conv_bias"}};
constexpr MambaNames kOfBamba{{"mamba_n_heads"},   {"mamba_d_head"},   {"mamba_n_groups"},
                              {"mamba_d_state"},   {"mamba_d_conv"},   {"mamba_chunk_size"},
                              {"mamba_proj_bias"}, {"mamba_conv_bias"}};

// Steps may have bounds, which do nothing where they are those of softplus.
void demand_plain_steps(ConfigKeys& keys) {
  const auto limits = keys.find({"time_step_limit"});
  if (!limits || !limits->is_array()) return;
  const std::vector<JsonNode> both = limits->items();
  const auto is_unbounded = [](const JsonNode& end) {
    return end.is_number() && (end.describe() == "number Infinity" ||
                               end.number(0, std::numeric_limits<double>::max()) > kMostScale);
  };
  const bool is_plain =
      both.size() == 2 && both[0].number(0, kMostScale) == 0.0 && is_unbounded(both[1]);
  if (!is_plain) limits->fail_expected("[0, Infinity]: steps of Mamba-2 without bounds");
}

void read_mamba(ConfigKeys& keys, const MambaNames& names, ModelConfig& model) {
  MambaShape& mamba = model.mamba.emplace();
  mamba.heads = keys.whole(names.heads, kMostHeads);
  const auto size = keys.find(names.head_size);
  mamba.head_size = size && size->is_number()
                        ? whole_number(*size, 1, kMostOfAHead)
                        : keys.whole({"mamba_expand"}, kMostOfAHead) * model.hidden / mamba.heads;
  mamba.groups = keys.whole(names.groups, kMostOfAHead);
  mamba.state = keys.whole(names.state, kMostOfAHead);
  mamba.conv = keys.whole(names.conv, kMostConvolution);
  mamba.chunk = keys.whole_or(names.chunk, kMostOfAHead, mamba.chunk);
  keys.demand(names.bias, false, false, "products of Mamba-2 have no biases");
  keys.demand(names.conv_bias, true, true, "the convolution of Mamba-2 has a bias");
  demand_plain_steps(keys);
  for (const char* key : {"expand", "mamba_expand", "mamba_hidden_act", "time_step_rank"})
    keys.find({key});
}

// The words of a list of layers, each by a letter of a pattern.
struct TypeLetter {
  std::string_view type;
  char letter;
};
constexpr TypeLetter kMixerTypes[] = {{"mamba", 'M'},     {"linear_attention", 'M'},
                                      {"attention", '*'}, {"full_attention", '*'},
                                      {"moe", 'E'},       {"mlp", '-'}};

char letter_of(const JsonNode& layer) {
  std::vector<std::string> words;
  for (const TypeLetter& row : kMixerTypes) words.emplace_back(row.type);
  const std::string word = layer.one_of(words);
  for (const TypeLetter& row : kMixerTypes)
    if (row.type == word) return row.letter;
  return '*';
}

void take_pattern(const JsonNode& at, const std::string& words, ModelConfig& model) {
  if (const std::string fault = pattern_fault(words, model.layers); !fault.empty()) at.fail(fault);
  model.pattern = pattern_of(words, model.layers);
}

// Layers of one branch, by letters or by words.
void read_nemotron_pattern(ConfigKeys& keys, ModelConfig& model) {
  if (const auto letters = keys.find({"hybrid_override_pattern"})) {
    const std::string words = letters->non_empty_string();
    model.layers = static_cast<std::int64_t>(words.size());
    return take_pattern(*letters, words, model);
  }
  std::string words;
  const auto types = keys.find({"layers_block_type", "layer_types"});
  if (types)
    for (const JsonNode& layer : types->items()) words += letter_of(layer);
  else
    words = "ME*-";  // as its class has them
  model.layers = static_cast<std::int64_t>(words.size());
  take_pattern(types ? *types : keys.node(), words, model);
}

void read_nemotron_experts(ConfigKeys& keys, ModelConfig& model) {
  ExpertShape experts;
  experts.count = keys.whole({"n_routed_experts", "num_local_experts"}, kMostOfExperts);
  experts.per_token = keys.whole(spelt::kPerToken, kMostOfExperts);
  experts.ffn = keys.whole(spelt::kExpertWidth, kMostColumns);
  experts.shared_ffn = keys.whole_or({"n_shared_experts"}, kMostOfExperts, 0) *
                       keys.whole({"moe_shared_expert_intermediate_size"}, kMostColumns);
  experts.latent = keys.whole_or({"moe_latent_size"}, kMostColumns, 0);
  experts.scores = Scores::kSigmoid;
  experts.selection_bias = true;
  experts.renormalised = keys.flag(spelt::kRenormalised, true);
  experts.scale = keys.number_or(spelt::kScale, 0, kMostScale, 1);
  experts.groups = keys.whole_or(spelt::kGroups, kMostOfExperts, 1);
  experts.groups_per_token = keys.whole_or(spelt::kGroupsPerToken, kMostOfExperts, 1);
  keys.note(
      "the bias by which its routers choose counts among the parameters, as in published weights; "
      "the class of transformers has it as a buffer");
  if (!model.has_mlp()) model.ffn = experts.ffn;
  model.experts = experts;
}

void read_nemotron_h(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kLlama);
  model.layers = 1;  // the pattern has as many as the model
  keys.find(spelt::kLayers);
  model.hidden = keys.whole(spelt::kHidden, kMostSize);
  model.heads = keys.whole(spelt::kHeads, kMostHeads);
  model.kv_heads = keys.whole_or(spelt::kKeyValueHeads, kMostHeads, model.heads);
  const std::int64_t size = keys.whole({"attention_head_dim", "head_dim"}, kMostOfAHead);
  if (size * model.heads != model.hidden) model.own_head_size = size;
  model.vocab = keys.whole(spelt::kVocabulary, kMostSize);
  model.tied_embeddings = keys.flag(spelt::kTied, false);
  read_epsilon(keys, model);
  model.position = Position::kNone;
  model.gated_mlp = false;
  model.ffn = keys.whole(spelt::kWidth, kMostColumns);
  keys.must({"mlp_hidden_act"}).one_of({"relu2"});
  model.layer.activation = Activation::kSquaredRelu;
  keys.demand(spelt::kMlpBias, false, false, "no product has a bias");
  keys.demand({"use_bias"}, false, false, "no product has a bias");
  for (const char* key : {"attention_bias", "rope_theta", "partial_rotary_factor"})
    keys.find({key});  // its class reads none of them
  read_nemotron_pattern(keys, model);
  if (model.layers_with(Mixer::kMamba) > 0) read_mamba(keys, kOfNemotron, model);
  if (model.layers_with(FeedForward::kExperts) > 0) read_nemotron_experts(keys, model);
  if (keys.whole_or({"num_nextn_predict_layers"}, kMostSize, 0) > 0)
    keys.note(
        "num_nextn_predict_layers is left out, as transformers does: the layers that predict "
        "further tokens, with their parameters");
  keys.find({"mtp_hybrid_override_pattern"});
}

void read_mamba2(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kLlama);
  model.layers = keys.whole(spelt::kLayers, kMostSize);
  model.hidden = keys.whole(spelt::kHidden, kMostSize);
  model.vocab = keys.whole(spelt::kVocabulary, kMostSize);
  model.tied_embeddings = keys.flag(spelt::kTied, false);
  read_epsilon(keys, model);
  model.position = Position::kNone;
  read_mamba(keys, kOfMamba2, model);
  keys.must(spelt::kActivation).one_of({"silu"});
  keys.demand({"rms_norm"}, true, true, "what Mamba-2 gives is normalised");
  take_pattern(keys.node(), "M", model);
  // The sizes of attention and of an MLP say nothing, since no layer has either.
  model.heads = model.kv_heads = model.mamba->heads;
  model.own_head_size = model.mamba->head_size;
  model.ffn = model.mamba->inner();
  for (const char* key : {"norm_before_gate", "intermediate_size"}) keys.find({key});
}

// Words for the layers: the mixer of each, and what follows it.
std::string mixer_words(const std::vector<char>& mixers, const std::vector<char>& others) {
  std::string words;
  for (std::size_t i = 0; i < mixers.size() && i < others.size(); ++i)
    words += std::string{mixers[i], others[i], ' '};
  return words;
}
std::string mixer_words(const std::vector<char>& mixers, char last) {
  return mixer_words(mixers, std::vector<char>(mixers.size(), last));
}

// The mixers by a list of layers, each of this type or one of full attention.
std::vector<char> mixers_of(const JsonNode& types, const char* type, char letter) {
  std::vector<char> mixers;
  for (const JsonNode& layer : types.items())
    mixers.push_back(layer.one_of({type, "full_attention"}) == type ? letter : '*');
  return mixers;
}

// What follows the mixers, where the first layers have an MLP and the others experts.
std::vector<char> experts_behind(std::size_t layers, std::int64_t dense) {
  std::vector<char> others(layers, 'E');
  std::fill_n(others.begin(), std::min(static_cast<std::size_t>(dense), layers), '-');
  return others;
}

void read_bamba(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_rotary(keys, model);
  std::vector<char> mixers(static_cast<std::size_t>(model.layers), 'M');
  if (const auto attention = keys.find({"attn_layer_indices"}))
    for (const JsonNode& layer : attention->items())
      mixers[static_cast<std::size_t>(layer.integer(0, model.layers - 1))] = '*';
  take_pattern(keys.node(), mixer_words(mixers, '-'), model);
  read_mamba(keys, kOfBamba, model);
}

void read_granite_hybrid(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kLlama);
  read_sizes(keys, model);
  model.kv_heads = keys.whole_or(spelt::kKeyValueHeads, kMostHeads, model.heads);
  read_activation(keys, model);
  keys.demand(spelt::kAttentionBias, false, false, "no product has a bias");
  const std::int64_t shared = keys.whole({"shared_intermediate_size"}, kMostColumns);
  const std::int64_t width = keys.whole(spelt::kWidth, kMostColumns);
  const std::int64_t count = keys.whole_or({"num_local_experts"}, kMostOfExperts, 0);
  const auto position = keys.find({"position_embedding_type"});
  if (position && position->string() == "rope") {
    read_rotary(keys, model);
  } else {
    model.position = Position::kNone;
    keys.find(spelt::kTheta);
  }
  std::vector<char> mixers;
  const auto types = keys.find({"layer_types", "layers_block_type"});
  if (types)
    for (const JsonNode& layer : types->items()) mixers.push_back(letter_of(layer));
  else
    mixers.assign(static_cast<std::size_t>(model.layers), 'M');  // as its class has them
  take_pattern(types ? *types : keys.node(), mixer_words(mixers, count > 0 ? 'E' : '-'), model);
  if (model.layers_with(Mixer::kMamba) > 0) read_mamba(keys, kOfBamba, model);
  read_factors(keys, model);
  model.ffn = count > 0 ? width : shared;
  if (count == 0) return;
  ExpertShape experts;
  experts.count = count;
  experts.per_token = keys.whole(spelt::kPerToken, kMostOfExperts);
  experts.ffn = width;
  experts.shared_ffn = shared;
  experts.balance = keys.number_or(spelt::kBalance, 0, kMostScale, 0);
  model.experts = experts;
}

void read_delta(ConfigKeys& keys, char last, ModelConfig& model) {
  DeltaShape& delta = model.delta.emplace();
  delta.key_heads = keys.whole({"linear_num_key_heads"}, kMostHeads);
  delta.value_heads = keys.whole({"linear_num_value_heads"}, kMostHeads);
  delta.key_size = keys.whole({"linear_key_head_dim"}, kMostOfAHead);
  delta.value_size = keys.whole({"linear_value_head_dim"}, kMostOfAHead);
  delta.conv = keys.whole({"linear_conv_kernel_dim"}, kMostConvolution);
  constexpr std::int64_t kUsualEvery = 4;
  const std::int64_t every = keys.whole_or({"full_attention_interval"}, kMostSize, kUsualEvery);
  std::vector<char> mixers;
  if (const auto types = keys.find(spelt::kLayerTypes)) {
    mixers = mixers_of(*types, "linear_attention", 'G');
  } else {
    for (std::int64_t i = 0; i < model.layers; ++i)
      mixers.push_back((i + 1) % every == 0 ? '*' : 'G');
  }
  take_pattern(keys.node(), mixer_words(mixers, last), model);
}

// Attention with a gate and heads of which a quarter turns.
void read_gated_attention(ConfigKeys& keys, ModelConfig& model) {
  model.qk_norm = true;
  model.layer.attention_gate = true;
  keys.demand({"attn_output_gate"}, true, true, "what attention gives has a gate");
  read_rotary(keys, model);
  for (const char* key : {"use_sliding_window", "mtp_num_hidden_layers",
                          "mtp_use_dedicated_embeddings", "mamba_ssm_dtype"})
    keys.find({key});
}

void read_qwen3_next(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kLlama);
  read_sizes(keys, model);
  model.kv_heads = keys.whole_or(spelt::kKeyValueHeads, kMostHeads, model.heads);
  const std::int64_t size = keys.whole(spelt::kHeadSize, kMostOfAHead);
  if (size * model.heads != model.hidden) model.own_head_size = size;
  read_activation(keys, model);
  keys.demand(spelt::kAttentionBias, false, false, "no product has a bias");
  read_gated_attention(keys, model);
  read_delta(keys, 'E', model);
  ExpertShape experts;
  experts.count = keys.whole(spelt::kExperts, kMostOfExperts);
  experts.per_token = keys.whole(spelt::kPerToken, kMostOfExperts);
  experts.ffn = keys.whole(spelt::kExpertWidth, kMostColumns);
  experts.shared_ffn = keys.whole({"shared_expert_intermediate_size"}, kMostColumns);
  experts.shared_gate = true;
  experts.renormalised = keys.flag(spelt::kRenormalised, true);
  experts.balance = keys.number_or(spelt::kBalance, 0, kMostScale, 0);
  if (const auto dense = keys.find(spelt::kDenseLayers); dense && !dense->items().empty())
    dense->fail_expected("no layers without experts");
  if (const auto every = keys.find(spelt::kSparseStep);
      every && whole_number(*every, 1, kMostSize) != 1)
    every->fail_expected("1: all layers have experts");
  keys.find(spelt::kWidth);  // of layers without experts
  model.ffn = experts.ffn;
  model.experts = experts;
}

void read_qwen3_5(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_gated_attention(keys, model);
  read_delta(keys, '-', model);
  keys.find(spelt::kDenseLayers);
}

// The layers that a list numbers from 1 get this letter.
void letter_layers(JsonObject& lists, std::string_view key, char letter,
                   std::vector<char>& mixers) {
  for (const JsonNode& layer : lists.member(key).items())
    mixers[static_cast<std::size_t>(layer.integer(1, static_cast<std::int64_t>(mixers.size())) -
                                    1)] = letter;
}

// Files of the model's own class have an object of sizes and lists; those of transformers have keys
// beside the others.
std::vector<char> read_kimi_mixers(ConfigKeys& keys, ModelConfig& model) {
  KimiShape& kimi = model.kimi.emplace();
  std::vector<char> mixers(static_cast<std::size_t>(model.layers), 'K');
  if (const auto own = keys.stated({"linear_attn_config"})) {
    JsonObject object = own->object();
    kimi.heads = whole_number(object.member("num_heads"), 1, kMostHeads);
    kimi.size = whole_number(object.member("head_dim"), 1, kMostOfAHead);
    if (const auto conv = object.optional_member("short_conv_kernel_size"))
      kimi.conv = whole_number(*conv, 1, kMostConvolution);
    letter_layers(object, "kda_layers", 'K', mixers);
    letter_layers(object, "full_attn_layers", '*', mixers);
    object.finish();
    return mixers;
  }
  kimi.heads = keys.whole({"linear_num_heads"}, kMostHeads);
  kimi.size = keys.whole({"linear_head_dim"}, kMostOfAHead);
  kimi.conv = keys.whole({"linear_conv_kernel_dim"}, kMostConvolution);
  constexpr std::int64_t kUsualEvery = 4;
  if (const auto types = keys.find(spelt::kLayerTypes))
    return mixers_of(*types, "linear_attention", 'K');
  for (std::size_t i = kUsualEvery; i < mixers.size(); i += kUsualEvery) mixers[i] = '*';
  return mixers;
}

// The words of layers, of which the first have an MLP and the others experts.
std::string read_kimi_words(ConfigKeys& keys, ModelConfig& model) {
  const std::vector<char> mixers = read_kimi_mixers(keys, model);
  std::int64_t dense = 1;  // as its class has them
  if (const auto first = keys.stated({"first_k_dense_replace"}))
    dense = whole_number(*first, 0, model.layers);
  std::vector<char> others = experts_behind(mixers.size(), dense);
  if (const auto types = keys.find({"mlp_layer_types"})) {
    others.clear();
    for (const JsonNode& layer : types->items())
      others.push_back(layer.one_of({"dense", "sparse"}) == "dense" ? '-' : 'E');
  }
  return mixer_words(mixers, others);
}

void read_kimi_experts(ConfigKeys& keys, ModelConfig& model) {
  ExpertShape experts;
  experts.count = keys.whole(spelt::kExperts, kMostOfExperts);
  experts.per_token = keys.whole({"num_experts_per_token", "num_experts_per_tok"}, kMostOfExperts);
  experts.ffn = keys.whole(spelt::kExpertWidth, kMostColumns);
  experts.shared_ffn =
      keys.whole_or({"num_shared_experts", "n_shared_experts"}, kMostOfExperts, 0) * experts.ffn;
  if (const auto every = keys.stated({"moe_layer_freq"});
      every && whole_number(*every, 1, kMostSize) != 1)
    every->fail_expected("1: all layers behind the first ones have experts");
  if (const auto scores = keys.stated({"moe_router_activation_func"})) scores->one_of({"sigmoid"});
  experts.scores = Scores::kSigmoid;
  experts.renormalised = keys.flag({"moe_renormalize", "norm_topk_prob"}, true);
  experts.scale = keys.number_or(spelt::kScale, 0, kMostScale, 1);
  experts.groups = keys.whole_or({"num_expert_group", "n_group"}, kMostOfExperts, 1);
  experts.groups_per_token = keys.whole_or(spelt::kGroupsPerToken, kMostOfExperts, 1);
  add_choice_bias(keys, experts);
  if (!model.has_mlp()) model.ffn = experts.ffn;
  model.experts = experts;
}

void read_kimi_linear(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_latent(keys, model);
  model.position = Position::kNone;
  keys.demand({"mla_use_nope"}, true, true, "its attention has no positions");
  for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters", "use_grouped_topk"})
    keys.find({key});
  take_pattern(keys.node(), read_kimi_words(keys, model), model);
  read_kimi_experts(keys, model);
  note_further_layers(keys);
}

// Layers of which one of `period`, that of number `offset`, is another.
void letter_every(ConfigKeys& keys, const Names& period, const Names& offset, char letter,
                  std::vector<char>& letters) {
  const std::int64_t every = keys.whole(period, kMostSize);
  const std::int64_t first = keys.whole_or(offset, kMostSize, 0);
  for (std::size_t i = 0; i < letters.size(); ++i)
    if (static_cast<std::int64_t>(i) % every == first) letters[i] = letter;
}

void read_mamba1(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kHiddenOfRank = 16;
  SelectiveShape& mamba = model.selective.emplace();
  mamba.inner = keys.whole({"mamba_expand"}, kMostOfAHead) * model.hidden;
  mamba.state = keys.whole({"mamba_d_state"}, kMostOfAHead);
  mamba.conv = keys.whole({"mamba_d_conv"}, kMostConvolution);
  const auto rank = keys.find({"mamba_dt_rank"});
  mamba.rank = rank && rank->is_number() ? whole_number(*rank, 1, kMostSize)
                                         : ceil_div(model.hidden, kHiddenOfRank);
  keys.demand({"mamba_proj_bias"}, false, false, "products of Mamba-1 have no biases");
  keys.demand({"mamba_conv_bias"}, true, true, "the convolution of Mamba-1 has a bias");
}

void read_jamba(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kLlama);
  read_sizes(keys, model);
  model.kv_heads = keys.whole_or(spelt::kKeyValueHeads, kMostHeads, model.heads);
  model.ffn = keys.whole(spelt::kWidth, kMostColumns);
  model.position = Position::kNone;
  read_activation(keys, model);
  keys.find(spelt::kWindow);
  const auto layers = static_cast<std::size_t>(model.layers);
  std::vector<char> mixers(layers, 'S'), others(layers, '-');
  letter_every(keys, {"attn_layer_period"}, {"attn_layer_offset"}, '*', mixers);
  const std::int64_t count = keys.whole_or(spelt::kExperts, kMostOfExperts, 1);
  if (count > 1) letter_every(keys, {"expert_layer_period"}, {"expert_layer_offset"}, 'E', others);
  take_pattern(keys.node(), mixer_words(mixers, others), model);
  read_mamba1(keys, model);
  if (count == 1) return;
  ExpertShape experts;
  experts.count = count;
  experts.per_token = keys.whole(spelt::kPerToken, kMostOfExperts);
  experts.ffn = model.ffn;
  experts.renormalised = false;
  experts.balance = keys.number_or(spelt::kBalance, 0, kMostScale, 0);
  model.experts = experts;
}

// Numbers of a list, or ones where there is none.
std::vector<double> factors_of_list(ConfigKeys& keys, const Names& names, std::size_t count) {
  const auto list = keys.find(names);
  if (!list) return std::vector<double>(count, 1.0);
  std::vector<double> factors;
  for (const JsonNode& factor : list->items()) factors.push_back(factor.number(0, kMostScale));
  if (factors.size() != count) list->fail_expected(fmt::format("{} factors", count));
  return factors;
}

// Factors of what enters and leaves a mixer are those of the columns of its first product, or of
// what its last one reads.
void read_falcon_factors(ConfigKeys& keys, ModelConfig& model) {
  const auto units = [](double factor) {
    return std::llround(factor * static_cast<double>(PartFactors::kOne));
  };
  const auto factor = [&](const Names& names) { return keys.number_or(names, 0, kMostScale, 1); };
  PartFactors& parts = model.factors;
  const std::vector<double> ssm = factors_of_list(keys, {"ssm_multipliers"}, 5);
  const double into_mamba = factor({"ssm_in_multiplier"});
  std::int64_t* const columns[] = {&parts.mamba_z, &parts.mamba_x, &parts.mamba_b, &parts.mamba_c,
                                   &parts.mamba_dt};
  for (std::size_t i = 0; i < ssm.size(); ++i) *columns[i] = units(into_mamba * ssm[i]);
  parts.mamba_out = units(factor({"ssm_out_multiplier"}));
  const double into_attention = factor({"attention_in_multiplier"});
  parts.query = units(into_attention);
  parts.key = units(into_attention * factor({"key_multiplier"}));
  parts.value = units(into_attention * factor({"attention_out_multiplier"}));
  const std::vector<double> mlp = factors_of_list(keys, {"mlp_multipliers"}, 2);
  parts.gate = units(mlp[0]);
  parts.up = units(mlp[1]);
  read_factors(keys, model);
  model.layer.logit_divisor =
      std::llround(static_cast<double>(kFactorUnit) / factor({"lm_head_multiplier"}));
}

void read_falcon_h1(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_rotary(keys, model);
  take_pattern(keys.node(),
               mixer_words(std::vector<char>(static_cast<std::size_t>(model.layers), 'H'), '-'),
               model);
  read_mamba(keys, kOfBamba, model);
  if (const auto inner = keys.find({"mamba_d_ssm"})) {
    const std::int64_t width = whole_number(*inner, 1, kMostColumns);
    if (width % model.mamba->heads != 0)
      inner->fail_expected(fmt::format("a multiple of mamba_n_heads, {}", model.mamba->heads));
    model.mamba->head_size = width / model.mamba->heads;
  }
  model.mamba->norm = keys.flag({"mamba_rms_norm"}, false);
  const Names order{"mamba_norm_before_gate"};
  if (model.mamba->norm)
    keys.demand(order, false, true, "the norm of Mamba-2 stands behind its gate");
  else
    keys.find(order);
  keys.demand({"projectors_bias"}, false, false, "no product has a bias");
  keys.demand({"mamba_use_mlp"}, true, true, "each layer has an MLP");
  keys.find({"attn_layer_indices"});
  read_falcon_factors(keys, model);
}

// Gated short convolutions and attention; those that a file has no list of are attention.
std::vector<char> read_lfm2_mixers(ConfigKeys& keys, ModelConfig& model) {
  if (const auto types = keys.find(spelt::kLayerTypes)) return mixers_of(*types, "conv", 'C');
  const auto attention = keys.find({"full_attn_idxs"});
  std::vector<char> mixers(static_cast<std::size_t>(model.layers), attention ? 'C' : '*');
  if (attention)
    for (const JsonNode& layer : attention->items())
      mixers[static_cast<std::size_t>(layer.integer(0, model.layers - 1))] = '*';
  return mixers;
}

void read_lfm2_layers(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kLlama);
  read_sizes(keys, model);
  model.tied_embeddings = keys.flag({"tie_embedding", "tie_word_embeddings"}, true);
  model.kv_heads = keys.whole_or(spelt::kKeyValueHeads, kMostHeads, model.heads);
  model.qk_norm = true;
  read_rotary(keys, model);
  keys.demand({"conv_bias"}, false, false, "no product has a bias");
  for (const char* key :
       {"block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale",
        "block_use_swiglu", "block_use_xavier_init", "conv_dim", "conv_dim_out",
        "conv_use_xavier_init", "num_heads", "use_pos_enc"})
    keys.find({key});  // its class reads none of them
}

void read_short_convolution(ConfigKeys& keys, ModelConfig& model) {
  if (model.layers_with(Mixer::kShort) == 0) return;
  model.short_convolution = {.width = model.hidden,
                             .conv = keys.whole({"conv_L_cache"}, kMostConvolution)};
}

// The MLP is as wide as the file says, or two thirds of that, times a factor, rounded up.
std::int64_t lfm2_width(ConfigKeys& keys) {
  const std::int64_t stated = keys.whole({"block_ff_dim", "intermediate_size"}, kMostColumns);
  const auto factor = keys.find({"block_ffn_dim_multiplier"});
  const std::int64_t multiple = keys.whole({"block_multiple_of"}, kMostColumns);
  if (!keys.flag({"block_auto_adjust_ff_dim"}, true)) return stated;
  const std::int64_t less = 2 * stated / 3;
  if (!factor) return less;
  return round_up(
      static_cast<std::int64_t>(factor->number(0, kMostScale) * static_cast<double>(less)),
      multiple);
}

void read_lfm2(ConfigKeys& keys, ModelConfig& model) {
  read_lfm2_layers(keys, model);
  model.ffn = lfm2_width(keys);
  take_pattern(keys.node(), mixer_words(read_lfm2_mixers(keys, model), '-'), model);
  read_short_convolution(keys, model);
}

void read_lfm2_moe(ConfigKeys& keys, ModelConfig& model) {
  read_lfm2_layers(keys, model);
  model.ffn = keys.whole(spelt::kWidth, kMostColumns);
  const std::int64_t dense = keys.whole_or({"num_dense_layers"}, kMostSize, 0);
  const std::vector<char> mixers = read_lfm2_mixers(keys, model);
  take_pattern(keys.node(), mixer_words(mixers, experts_behind(mixers.size(), dense)), model);
  read_short_convolution(keys, model);
  ExpertShape experts;
  experts.count = keys.whole(spelt::kExperts, kMostOfExperts);
  experts.per_token = keys.whole(spelt::kPerToken, kMostOfExperts);
  experts.ffn = keys.whole(spelt::kExpertWidth, kMostColumns);
  experts.scores = Scores::kSigmoid;
  experts.renormalised = keys.flag(spelt::kRenormalised, true);
  experts.scale = keys.number_or(spelt::kScale, 0, kMostScale, 1);
  if (keys.flag({"use_expert_bias"}, true)) add_choice_bias(keys, experts);
  if (!model.has_mlp()) model.ffn = experts.ffn;
  if (model.layers_with(FeedForward::kExperts) > 0) model.experts = experts;
}

constexpr Family kHybridFamilies[] = {
    {"bamba", "BambaDecoderLayer", read_bamba},
    {"falcon_h1", "FalconH1DecoderLayer", read_falcon_h1},
    {"granitemoehybrid", "GraniteMoeHybridDecoderLayer", read_granite_hybrid},
    {"jamba", "JambaAttentionDecoderLayer", read_jamba},
    {"kimi_linear", "KimiLinearDecoderLayer", read_kimi_linear},
    {"lfm2", "Lfm2DecoderLayer", read_lfm2},
    {"lfm2_moe", "Lfm2MoeDecoderLayer", read_lfm2_moe},
    {"mamba2", "Mamba2Block", read_mamba2},
    {"nemotron_h", "NemotronHBlock", read_nemotron_h},
    {"qwen3_5_moe_text", "Qwen3_5MoeDecoderLayer", read_qwen3_next},
    {"qwen3_5_text", "Qwen3_5DecoderLayer", read_qwen3_5},
    {"qwen3_next", "Qwen3NextDecoderLayer", read_qwen3_next},
};

}  // namespace

std::span<const Family> hybrid_families() { return kHybridFamilies; }

}  // namespace zplan
