#include "planner/foreign/hugging_face/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/foreign/hugging_face/positions.h"
#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {
namespace {

// Far above any model; validate() has the limits of each size.
constexpr double kLeastEpsilon = 1e-12, kMostEpsilon = 1e-3;

struct Word {
  std::string_view word;
  Activation plain, gated;  // of an MLP without and with a gate
};
constexpr Word kActivations[] = {
    {"silu", Activation::kSilu, Activation::kUsual},
    {"swish", Activation::kSilu, Activation::kUsual},
    {"gelu", Activation::kGelu, Activation::kGelu},
    {"gelu_new", Activation::kUsual, Activation::kGeluTanh},
    {"gelu_fast", Activation::kUsual, Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kUsual, Activation::kGeluTanh},
    {"relu", Activation::kRelu, Activation::kRelu},
    {"quick_gelu", Activation::kQuickGelu, Activation::kQuickGelu},
};

void read_llama(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_rotary(keys, model);
}

void read_mistral(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_windows(keys, model, all_layers(model));
  read_rotary(keys, model);
}

// Windows that begin with a layer, and only where the file asks for them.
void read_qwen_windows(ConfigKeys& keys, ModelConfig& model) {
  const std::int64_t first = keys.whole_or({"max_window_layers"}, kMostSize, 0);
  if (!keys.flag(spelt::kUsesWindow, false)) {
    keys.find(spelt::kWindow);
    keys.find(spelt::kLayerTypes);
    return;
  }
  read_windows_from(keys, model, first);
}

void read_qwen2(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.biases = Biases::kQkv;
  read_qwen_windows(keys, model);
  read_rotary(keys, model);
}

void read_qwen3(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.qk_norm = true;
  read_qwen_windows(keys, model);
  read_rotary(keys, model);
}

void read_gemma(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.layer.scaled_embedding = true;
  // Released files say "gelu" and mean the tanh form.
  if (model.layer.activation == Activation::kGelu) model.layer.activation = Activation::kGeluTanh;
  keys.demand({"use_bidirectional_attention"}, false, false, "a query sees what is before it");
  read_rotary(keys, model);
}

void read_gemma2(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  LayerFeatures& layer = model.layer;
  layer.scaled_embedding = layer.post_norms = true;
  layer.attention_divisor = keys.whole(spelt::kDivisor, kMostSize);
  layer.attention_cap = keys.whole_or(spelt::kAttentionCap, kMostSize, 0);
  layer.logit_cap = keys.whole_or(spelt::kLogitCap, kMostSize, 0);
  keys.demand({"use_bidirectional_attention"}, false, false, "a query sees what is before it");
  read_windows(keys, model, but_every(model, 2));
  read_rotary(keys, model);
}

void read_gemma3_text(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kUsualTurn = 6, kMostTurn = 10'000;
  read_llama_layers(keys, model);
  model.qk_norm = true;
  LayerFeatures& layer = model.layer;
  layer.scaled_embedding = layer.post_norms = true;
  layer.attention_divisor = keys.whole(spelt::kDivisor, kMostSize);
  layer.attention_cap = keys.whole_or(spelt::kAttentionCap, kMostSize, 0);
  layer.logit_cap = keys.whole_or(spelt::kLogitCap, kMostSize, 0);
  keys.demand({"use_bidirectional_attention"}, false, false, "a query sees what is before it");
  const auto turn = keys.stated({"sliding_window_pattern", "_sliding_window_pattern"});
  read_windows(keys, model,
               but_every(model, turn ? whole_number(*turn, 1, kMostTurn) : kUsualTurn));
  read_rotary(keys, model);
}

void read_ernie4_5(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  if (keys.flag({"use_bias"}, false)) model.biases = Biases::kAll;
  read_rotary(keys, model);
}

void read_qwen3_text(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.qk_norm = true;
  read_rotary(keys, model);
}

constexpr Family kFamilies[] = {
    {"ernie4_5", read_ernie4_5, "Ernie4_5DecoderLayer"},
    {"gemma", read_gemma, "GemmaDecoderLayer"},
    {"gemma2", read_gemma2, "Gemma2DecoderLayer"},
    {"gemma3_text", read_gemma3_text, "Gemma3DecoderLayer"},
    {"llama", read_llama, "LlamaDecoderLayer"},
    {"ministral3", read_mistral, "Ministral3DecoderLayer", "mistral"},
    {"mistral", read_mistral, "MistralDecoderLayer"},
    // The same layers, of which some matrices stand side by side.
    {"phi3", read_mistral, "Phi3DecoderLayer"},
    {"qwen2", read_qwen2, "Qwen2DecoderLayer"},
    {"qwen2_5_vl", read_qwen2, "Qwen2_5_VLDecoderLayer", "qwen2"},
    {"qwen2_5_vl_text", read_qwen2, "Qwen2_5_VLDecoderLayer", "qwen2"},
    {"qwen2_vl", read_qwen2, "Qwen2VLDecoderLayer", "qwen2"},
    {"qwen2_vl_text", read_qwen2, "Qwen2VLDecoderLayer", "qwen2"},
    {"qwen3", read_qwen3, "Qwen3DecoderLayer"},
    {"qwen3_vl_text", read_qwen3_text, "Qwen3VLTextDecoderLayer", "qwen3"},
};

struct Refused {
  std::string_view type, why;
};
constexpr Refused kRefused[] = {
    {"phi",
     "its output matrix has a bias, which models here have with a transform of the head only"},
    {"deepseek_v32", "its attention chooses keys by an indexer, which models here have not"},
    {"glm_moe_dsa", "its attention chooses keys by an indexer, which models here have not"},
    {"mllama", "some of its layers attend to the vision tower, which models here have not"},
    {"phimoe",
     "its output matrix and its attention have biases and its MLPs have none, and its router "
     "chooses by sparse mixing, which models here have not"},
    {"falcon_h1",
     "its layers have Mamba-2 and attention side by side with factors of each part, which models "
     "here have not"},
    {"jamba",
     "its layers have Mamba-1, whose states have a decay of each channel, which models "
     "here have not"},
    {"kimi_linear", "its delta nets have a gate of each channel, which models here have not"},
    {"zamba2", "its layers share an attention block, which models here have not"},
    {"gemma3n", "its layers have embeddings of their own, which models here have not"},
};

}  // namespace

std::span<const Family> llama_families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const auto& rows :
       {llama_families(), expert_families(), other_families(), hybrid_families()})
    for (const Family& family : rows)
      if (family.type == model_type) return &family;
  return nullptr;
}

std::vector<std::string> family_types() {
  std::vector<std::string> types;
  for (const auto& rows :
       {llama_families(), expert_families(), other_families(), hybrid_families()})
    for (const Family& family : rows) types.emplace_back(family.type);
  std::ranges::sort(types);
  return types;
}

std::string_view refused_family(std::string_view model_type) {
  for (const Refused& family : kRefused)
    if (family.type == model_type) return family.why;
  return "";
}

void read_activation(ConfigKeys& keys, ModelConfig& model) {
  const JsonNode node = keys.must(spelt::kActivation);
  std::vector<std::string> words;
  for (const Word& row : kActivations) words.emplace_back(row.word);
  const std::string word = node.one_of(words);
  for (const Word& row : kActivations)
    if (row.word == word) model.layer.activation = model.gated_mlp ? row.gated : row.plain;
}

Activation plain_activation(const ModelConfig& model) {
  const Activation own = model.layer.activation;
  const bool is_usual = own == (model.gated_mlp ? Activation::kSilu : Activation::kGeluTanh);
  return is_usual ? Activation::kUsual : own;
}

std::string activation_word(const ModelConfig& model, const std::string& usual) {
  if (model.layer.up_offset > 0) return usual;  // what GPT-OSS calls its own, limits and all
  std::vector<std::string> words;
  for (const Word& row : kActivations)
    if ((model.gated_mlp ? row.gated : row.plain) == plain_activation(model))
      words.emplace_back(row.word);
  const bool has_usual = std::ranges::find(words, usual) != words.end();
  return has_usual || words.empty() ? usual : words.front();
}

void read_epsilon(ConfigKeys& keys, ModelConfig& model) {
  const auto epsilon = keys.find(spelt::kEpsilon);
  if (epsilon)
    model.layer.norm_epsilon =
        std::llround(epsilon->number(kLeastEpsilon, kMostEpsilon) * kEpsilonUnit);
}

void read_sizes(ConfigKeys& keys, ModelConfig& model) {
  model.layers = keys.whole(spelt::kLayers, kMostSize);
  model.hidden = keys.whole(spelt::kHidden, kMostSize);
  model.heads = keys.whole(spelt::kHeads, kMostSize);
  model.kv_heads = model.heads;
  model.vocab = keys.whole(spelt::kVocabulary, kMostSize);
  model.tied_embeddings = keys.flag(spelt::kTied, true);
  read_epsilon(keys, model);
}

void read_llama_sizes(ConfigKeys& keys, ModelConfig& model) {
  set_architecture(model, Architecture::kLlama);
  read_sizes(keys, model);
  model.ffn = keys.whole(spelt::kWidth, kMostSize);
  model.kv_heads = keys.whole_or(spelt::kKeyValueHeads, kMostSize, model.heads);
  const std::int64_t size = keys.whole_or(spelt::kHeadSize, kMostSize, 0);
  if (size * model.heads != model.hidden) model.own_head_size = size;
  read_activation(keys, model);
}

void read_llama_layers(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  const bool attention = keys.flag(spelt::kAttentionBias, false);
  const bool mlp = keys.flag(spelt::kMlpBias, false);
  if (attention != mlp)
    keys.must(attention ? spelt::kAttentionBias : spelt::kMlpBias)
        .fail("expected biases of attention and MLP or of neither, got those of one");
  if (attention) model.biases = Biases::kAll;
}

}  // namespace zplan
