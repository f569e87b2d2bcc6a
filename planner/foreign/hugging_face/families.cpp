#include "planner/foreign/hugging_face/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "planner/foreign/hugging_face/hugging_face.h"
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
    {"relu2", Activation::kSquaredRelu, Activation::kSquaredRelu},
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

// Queries of late positions are scaled there, which changes numbers alone.
void read_ministral3(ConfigKeys& keys, ModelConfig& model) {
  read_mistral(keys, model);
  keys.note(
      "queries are not scaled by their positions, as llama_4_scaling_beta of rope_parameters does "
      "it");
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

// Qwen2 before modules that predict further tokens.
void read_mimo(ConfigKeys& keys, ModelConfig& model) {
  read_llama_sizes(keys, model);
  if (keys.flag(spelt::kAttentionBias, true)) model.biases = Biases::kQkv;
  read_qwen_windows(keys, model);
  read_rotary(keys, model);
  note_further_layers(keys);
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

void read_vaultgemma(ConfigKeys& keys, ModelConfig& model) {
  read_gemma2(keys, model);
  model.layer.post_norms = false;
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

void read_qwen3_text(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.qk_norm = true;
  read_rotary(keys, model);
}

constexpr Family kFamilies[] = {
    {"gemma", "GemmaDecoderLayer", read_gemma},
    {"gemma2", "Gemma2DecoderLayer", read_gemma2},
    {"gemma3_text", "Gemma3DecoderLayer", read_gemma3_text},
    {"llama", "LlamaDecoderLayer", read_llama},
    {"mimo", "MiMoDecoderLayer", read_mimo, "qwen2"},
    {"ministral3", "Ministral3DecoderLayer", read_ministral3, "mistral"},
    {"mistral", "MistralDecoderLayer", read_mistral},
    {"ministral", "MinistralDecoderLayer", read_mistral},
    // The same layers, of which some matrices stand side by side.
    {"phi3", "Phi3DecoderLayer", read_mistral},
    {"qwen2", "Qwen2DecoderLayer", read_qwen2},
    {"qwen2_5_vl", "Qwen2_5_VLDecoderLayer", read_qwen2, "qwen2"},
    {"qwen2_5_vl_text", "Qwen2_5_VLDecoderLayer", read_qwen2, "qwen2"},
    {"qwen2_vl", "Qwen2VLDecoderLayer", read_qwen2, "qwen2"},
    {"qwen2_vl_text", "Qwen2VLDecoderLayer", read_qwen2, "qwen2"},
    {"qwen3", "Qwen3DecoderLayer", read_qwen3},
    {"qwen3_vl_text", "Qwen3VLTextDecoderLayer", read_qwen3_text, "qwen3"},
    {"vaultgemma", "VaultGemmaDecoderLayer", read_vaultgemma},
};

struct Refused {
  std::string_view type, why;
};
constexpr Refused kRefused[] = {
    {"apertus", "its MLP has xIELU, an activation with parameters of its own"},
    {"deepseek_v4",
     "its attention chooses and compresses keys, and its residual stream has several lanes, which "
     "models here have not"},
    {"gemma4_text", "its layers have heads of two sizes in turn, which models here have not"},
    {"hunyuan_v1_dense",
     "norms of queries and keys stand behind positions, where models here have them before"},
    {"mimo_v2_flash",
     "its layers have heads of several shapes in turn, which models here have not"},
    {"whisper", "it reads sound, and models here text"},
    {"mllama", "some of its layers attend to the vision tower, which models here have not"},
    {"zamba2", "its layers share an attention block, which models here have not"},
    {"gemma3n", "its layers have embeddings of their own, which models here have not"},
};

// A model that several can say is written as of the first of them: those that turn other pairs of a
// head's elements are the last.
std::array<std::span<const Family>, 5> all_families() {
  return {llama_families(), expert_families(), other_families(), dense_families(),
          hybrid_families()};
}

}  // namespace

std::span<const Family> llama_families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const auto& rows : all_families())
    for (const Family& family : rows)
      if (family.type == model_type) return &family;
  return nullptr;
}

std::vector<std::string> family_types() {
  std::vector<std::string> types;
  for (const auto& rows : all_families())
    for (const Family& family : rows) types.emplace_back(family.type);
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
  if (mlp && !attention)
    keys.must(spelt::kMlpBias).fail("expected biases of attention where the MLP has some");
  if (attention) model.biases = mlp ? Biases::kAll : Biases::kAttention;
}

}  // namespace zplan
