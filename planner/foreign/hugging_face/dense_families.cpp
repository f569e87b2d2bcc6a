// Families whose layers are Llama's or nearly so: other norms, biases and positions, factors, an
// MLP without a gate, branches side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/positions.h"
#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostLayersOfTurn = 10'000;
constexpr double kLeastFactor = 1e-6, kMostRealFactor = 1e6;

// Rows of queries and keys in another order give the same numbers.
void note_pairs(ConfigKeys& keys) {
  keys.note(
      "elements 2i and 2i + 1 of a head turn together, here i and i + d/2: the same but for the "
      "order of a head's rows");
}

// A whole number that is at most a rounding away.
std::int64_t whole_near(const JsonNode& node, double value, std::string_view what) {
  const double near = std::round(value);
  if (near < 1 || near > static_cast<double>(kMostSize) || std::abs(value - near) > 1e-9 * near)
    node.fail_expected(fmt::format("a number whose {} is a whole one", what));
  return static_cast<std::int64_t>(near);
}

std::int64_t in_units(double factor) { return std::llround(factor * kFactorUnit); }

// Biases of the products of attention that are those of queries, keys and values alone.
void leave_out_output_bias(ModelConfig& model) {
  if (model.biases == Biases::kAttention) model.biases = Biases::kQkv;
}

// An MLP of two products.
void remove_gate(ConfigKeys& keys, ModelConfig& model) {
  model.gated_mlp = false;
  read_activation(keys, model);
}

// All layers but the last of each turn of so many have rotary positions.
void read_unturned(ConfigKeys& keys, ModelConfig& model) {
  const std::int64_t every = keys.whole_or({"no_rope_layer_interval"}, kMostLayersOfTurn, 0);
  const auto list = keys.find(spelt::kTurnedLayers);
  if (!list) {
    if (every <= model.layers) model.layer.unturned_every = every;
    return;
  }
  std::vector<bool> turned;
  for (const JsonNode& layer : list->items()) turned.push_back(layer.integer(0, 1) == 1);
  const auto first = std::find(turned.begin(), turned.end(), false);
  const std::int64_t turn = first - turned.begin() + 1;
  for (std::size_t i = 0; i < turned.size(); ++i)
    if (turned[i] != ((static_cast<std::int64_t>(i) + 1) % turn != 0))
      list->fail("expected the last of each so many layers without positions, got another order");
  if (first != turned.end()) model.layer.unturned_every = turn;
}

// Layers without a window have no positions either.
void leave_out_positions_of_full(ConfigKeys& keys, ModelConfig& model) {
  LayerFeatures& layer = model.layer;
  if (layer.full_layers == 0) return;
  if (layer.full_layers > 1 || layer.full_layers_first)
    keys.node().fail("expected turns that end with one layer without a window, got others");
  layer.unturned_every = layer.window_turn();
}

void read_cohere_layers(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.norm = Norm::kLayerNormNoBias;
  model.layer.parallel_residual = ParallelResidual::kOneNorm;
  const double scale = keys.number_or(spelt::kLogitScale, kLeastFactor, kMostRealFactor, 1);
  model.layer.logit_divisor = in_units(1 / scale);
  note_pairs(keys);
}

void read_olmo(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.norm = Norm::kLayerNormFixed;
  if (const auto clip = keys.find({"clip_qkv"}))
    clip->fail("expected queries, keys and values that are not clipped, got clip_qkv");
  read_rotary(keys, model);
}

void read_olmo2(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.qk_norm = model.layer.whole_qk_norm = model.layer.only_post_norms = true;
  read_rotary(keys, model);
}

void read_olmo3(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kTurn = 4;
  read_llama_layers(keys, model);
  model.qk_norm = model.layer.whole_qk_norm = model.layer.only_post_norms = true;
  read_windows(keys, model, but_every(model, kTurn));
  read_rotary(keys, model);
}

void read_smollm3(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  keys.demand(spelt::kUsesWindow, false, false, "a query sees all that is before it");
  keys.find(spelt::kWindow);
  keys.find(spelt::kLayerTypes);
  read_rotary(keys, model);
  read_unturned(keys, model);
}

void read_exaone4(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.qk_norm = model.layer.only_post_norms = true;
  std::int64_t turn = 0;
  if (const auto pattern = keys.find(spelt::kWindowTurn))  // "LLLG", or its length
    turn = pattern->is_string() ? static_cast<std::int64_t>(pattern->string().size())
                                : whole_number(*pattern, 1, kMostLayersOfTurn);
  read_windows(keys, model, turn > 0 ? but_every(model, turn) : all_layers(model));
  read_rotary(keys, model);
  leave_out_positions_of_full(keys, model);
}

void read_granite(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  read_rotary(keys, model);
  read_factors(keys, model);
}

void read_cohere(ConfigKeys& keys, ModelConfig& model) {
  read_cohere_layers(keys, model);
  keys.demand({"use_qk_norm"}, false, false, "no LayerNorm of heads, each with a gain of its own");
  read_rotary(keys, model);
}

void read_cohere2(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kUsualTurn = 4;
  read_cohere_layers(keys, model);
  const auto turn = keys.stated({"sliding_window_pattern", "_sliding_window_pattern"});
  read_windows(keys, model,
               but_every(model, turn ? whole_number(*turn, 1, kMostLayersOfTurn) : kUsualTurn));
  if (model.layer.window == 0)
    keys.node().fail("expected layers with a window: those without have no positions");
  read_rotary(keys, model);
  leave_out_positions_of_full(keys, model);
}

void read_stablelm(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.norm = Norm::kLayerNorm;
  if (keys.flag(spelt::kQkvBias, false)) model.biases = Biases::kQkv;
  keys.demand({"qk_layernorm"}, false, false, "no LayerNorm of heads, each with a gain of its own");
  if (keys.flag(spelt::kParallelResidual, false))
    model.layer.parallel_residual = ParallelResidual::kOneNorm;
  read_rotary(keys, model);
}

void read_starcoder2(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.norm = Norm::kLayerNorm;
  remove_gate(keys, model);
  model.biases = keys.flag(spelt::kUseBias, true) ? Biases::kAll : Biases::kNone;
  read_windows(keys, model, all_layers(model));
  read_rotary(keys, model);
}

void read_phi(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  model.norm = Norm::kLayerNorm;
  model.biases = Biases::kAll;
  remove_gate(keys, model);
  model.layer.parallel_residual = ParallelResidual::kOneNorm;
  model.layer.head_bias = true;
  keys.demand({"qk_layernorm"}, false, false, "no LayerNorm of heads");
  read_rotary(keys, model);
}

void read_glm(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  leave_out_output_bias(model);
  note_pairs(keys);
  read_rotary(keys, model);
}

void read_glm4(ConfigKeys& keys, ModelConfig& model) {
  read_glm(keys, model);
  model.layer.post_norms = true;
}

void read_seed_oss(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  const auto output = keys.find(spelt::kOutputBias);
  const bool has_output = output && output->boolean();
  if (has_output != (model.biases != Biases::kNone) && has_output)
    output->fail("expected no bias of the last product of attention alone");
  if (!has_output) leave_out_output_bias(model);
  read_rotary(keys, model);
}

void read_arcee(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  remove_gate(keys, model);
  read_rotary(keys, model);
}

void read_nemotron(ConfigKeys& keys, ModelConfig& model) {
  read_arcee(keys, model);
  model.norm = Norm::kLayerNorm;  // whose gain is published less 1
}

void read_helium(ConfigKeys& keys, ModelConfig& model) {
  read_llama_layers(keys, model);
  note_pairs(keys);
  read_rotary(keys, model);
}

void read_ernie4_5(ConfigKeys& keys, ModelConfig& model) {
  read_helium(keys, model);
  if (keys.flag(spelt::kUseBias, false)) model.biases = Biases::kAll;
}

// The first of each four layers sees all that is before it.
void read_cwm(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kTurn = 4;
  read_llama_layers(keys, model);
  read_windows(keys, model, but_first_of(model, kTurn));
  read_rotary(keys, model);
}

void read_modernbert(ConfigKeys& keys, ModelConfig& model) {
  constexpr std::int64_t kUsualTurn = 3, kMostTokens = 1 << 24;
  read_llama_layers(keys, model);
  const bool has_bias = keys.flag({"norm_bias"}, false);
  model.norm = has_bias ? Norm::kLayerNorm : Norm::kLayerNormNoBias;
  LayerFeatures& layer = model.layer;
  layer.bidirectional = layer.embedding_norm = layer.head_transform = true;
  layer.bare_first_branch = true;
  keys.demand({"decoder_bias"}, true, true, "logits have a bias");
  keys.demand({"classifier_bias"}, model.biases == Biases::kAll, false,
              "the head's product has a bias as the layers' have");
  if (const auto word = keys.find({"classifier_activation"}))
    word->one_of({keys.word(spelt::kActivation)});
  const auto every = keys.stated({"global_attn_every_n_layers"});
  // On either side, and the query's own.
  const auto size = keys.must(spelt::kBothWayWindow);
  read_windows_of(
      keys, model, whole_number(size, 2, kMostTokens) / 2 + 1, size,
      but_first_of(model, every ? whole_number(*every, 1, kMostLayersOfTurn) : kUsualTurn));
  read_rotary(keys, model);
  keys.note("its head is that of masked tokens");
}

constexpr Family kDenseFamilies[] = {
    {"arcee", "ArceeDecoderLayer", read_arcee},
    {"cwm", "CwmDecoderLayer", read_cwm},
    {"exaone4", "Exaone4DecoderLayer", read_exaone4},
    {"granite", "GraniteDecoderLayer", read_granite},
    {"jais2", "Jais2DecoderLayer", read_nemotron},
    {"modernbert", "ModernBertEncoderLayer", read_modernbert},
    {"nemotron", "NemotronDecoderLayer", read_nemotron},
    {"olmo", "OlmoDecoderLayer", read_olmo},
    {"olmo2", "Olmo2DecoderLayer", read_olmo2},
    {"olmo3", "Olmo3DecoderLayer", read_olmo3},
    {"phi", "PhiDecoderLayer", read_phi},
    {"seed_oss", "SeedOssDecoderLayer", read_seed_oss},
    {"smollm3", "SmolLM3DecoderLayer", read_smollm3},
    {"stablelm", "StableLmDecoderLayer", read_stablelm},
    {"starcoder2", "Starcoder2DecoderLayer", read_starcoder2},
    {"cohere", "CohereDecoderLayer", read_cohere},
    {"cohere2", "Cohere2DecoderLayer", read_cohere2},
    {"ernie4_5", "Ernie4_5DecoderLayer", read_ernie4_5},
    {"glm", "GlmDecoderLayer", read_glm},
    {"glm4", "Glm4DecoderLayer", read_glm4},
    {"helium", "HeliumDecoderLayer", read_helium},
};

}  // namespace

void read_factors(ConfigKeys& keys, ModelConfig& model) {
  const auto factor = [&](const Names& names) -> std::optional<std::pair<JsonNode, double>> {
    const auto node = keys.find(names);
    if (!node) return std::nullopt;
    return std::pair{*node, node->number(kLeastFactor, kMostRealFactor)};
  };
  LayerFeatures& layer = model.layer;
  if (const auto x = factor(spelt::kEmbeddingFactor); x && x->second != 1)
    layer.embedding_square = whole_near(x->first, x->second * x->second, "square");
  if (const auto x = factor(spelt::kAttentionFactor)) {
    const std::int64_t divisor =
        whole_near(x->first, 1 / (x->second * x->second), "square's reciprocal");
    layer.attention_divisor = divisor == model.head_size() ? 0 : divisor;
  }
  if (const auto x = factor(spelt::kResidualFactor)) layer.residual_factor = in_units(x->second);
  if (const auto x = factor(spelt::kLogitDivisor)) layer.logit_divisor = in_units(x->second);
}

std::span<const Family> dense_families() { return kDenseFamilies; }

}  // namespace zplan
