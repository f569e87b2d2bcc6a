#include "planner/foreign/hugging_face/written_keys.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "planner/core/json_edit.h"
#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/spellings.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;
using Value = std::optional<Json>;  // nothing: the key is not written

constexpr double kLimitUnit = 1e9;
constexpr double kDropped = 0.1;  // of the elements, as the classes of GPT-2, BERT, OPT and T5
constexpr int kIndent = 2;

struct Row {
  Names keys;
  Value (*of)(const ModelConfig& model);
  // Where the class itself does not name the key: the types that read its first spelling.
  Names types{};
  // Types whose class names this other key have the first spelling of the row's key, too.
  std::string_view beside{};
  Names without{};  // types that do not read it, though their class names it
};

// A size that is nothing where it is 0.
Json or_null(std::int64_t size) { return size > 0 ? Json(size) : Json(nullptr); }

Json real(std::int64_t number) { return static_cast<double>(number); }
Json real_or_null(std::int64_t number) { return number > 0 ? real(number) : Json(nullptr); }

// Of the experts of a model that has some.
template <class Of>
Value of_experts(const ModelConfig& model, Of of) {
  return model.experts ? Value(of(*model.experts)) : std::nullopt;
}
template <std::int64_t ExpertShape::*kMember>
Value expert_size(const ModelConfig& model) {
  return of_experts(model, [](const ExpertShape& experts) { return experts.*kMember; });
}
template <std::int64_t LatentShape::*kMember>
Value latent_size(const ModelConfig& model) {
  return model.latent ? Value(or_null(*model.latent.*kMember)) : std::nullopt;
}
template <std::int64_t IndexShape::*kMember>
Value index_size(const ModelConfig& model) {
  return model.index ? Value(or_null(*model.index.*kMember)) : std::nullopt;
}
template <std::int64_t LayerFeatures::*kMember>
Value layer_size(const ModelConfig& model) {
  return model.layer.*kMember;
}
template <std::int64_t ModelConfig::*kMember>
Value size(const ModelConfig& model) {
  return model.*kMember;
}

// Of a head the least share that is rounded down to the elements that turn.
Value rotary_share(const ModelConfig& model) {
  const double head = static_cast<double>(model.head_size());
  const std::int64_t turning = model.layer.rotary_size;
  if (turning == 0) return 1.0;
  double share = static_cast<double>(turning) / head;
  while (static_cast<std::int64_t>(share * head) < turning) share = std::nextafter(share, 2.0);
  return share;
}

// 1 where a layer has positions.
Value turned_layers(const ModelConfig& model) {
  Json turned = Json::array();
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    turned.push_back(model.layer.turns(layer) ? 1 : 0);
  return turned;
}

double in_ones(std::int64_t factor) { return static_cast<double>(factor) / kFactorUnit; }

Value attention_factor(const ModelConfig& model) {
  const std::int64_t own = model.layer.attention_divisor;
  return 1 / std::sqrt(static_cast<double>(own > 0 ? own : model.head_size()));
}

Value embedding_factor(const ModelConfig& model) {
  const std::int64_t square = model.layer.embedding_square;
  return square > 0 ? std::sqrt(static_cast<double>(square)) : 1.0;
}

Value linear_stretch(const ModelConfig& model) {
  if (model.layer.rope_stretch == 1) return std::nullopt;
  return Json{{"rope_type", "linear"}, {"factor", real(model.layer.rope_stretch)}};
}

Value layer_types(const ModelConfig& model) {
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    types.push_back(model.layer.window_of(layer) > 0 ? spelt::kWithWindow : spelt::kWithoutWindow);
  return types;
}

// Layers that have an MLP, unless they are those of turns.
Value dense_layers(const ModelConfig& model) {
  return of_experts(model, [](const ExpertShape& experts) {
    Json layers = Json::array();
    for (std::int64_t layer = 0; layer < experts.dense_layers; ++layer)
      if (!experts.takes_turns()) layers.push_back(layer);
    return layers;
  });
}

// Counts experts that are together as wide as the MLP that all tokens go through.
Value shared_experts(const ModelConfig& model) {
  return of_experts(model, [](const ExpertShape& e) { return e.shared_ffn / e.ffn; });
}

// With groups those of DeepSeek-V2.
Value choice_method(const ModelConfig& model) {
  return of_experts(model, [](const ExpertShape& experts) {
    return experts.groups > 1 ? "group_limited_greedy" : "greedy";
  });
}

constexpr Row kRows[] = {
    {spelt::kVocabulary, size<&ModelConfig::vocab>},
    {spelt::kLayers, size<&ModelConfig::layers>},
    {spelt::kHidden, size<&ModelConfig::hidden>},
    {spelt::kHeads, size<&ModelConfig::heads>},
    {spelt::kKeyValueHeads, size<&ModelConfig::kv_heads>},
    {spelt::kMultiQuery, [](const ModelConfig& m) { return Value(m.kv_heads == 1); }},
    {spelt::kFalconGroups, size<&ModelConfig::kv_heads>},
    {{"new_decoder_architecture"},
     [](const ModelConfig& m) {
       return Value(m.layer.parallel_residual == ParallelResidual::kTwoNorms);
     }},
    {{"parallel_attn"},
     [](const ModelConfig& m) {
       return Value(m.layer.parallel_residual != ParallelResidual::kNone);
     }},
    {{"bias"}, [](const ModelConfig& m) { return Value(m.biases == Biases::kAll); }},
    {{"ffn_hidden_size"}, size<&ModelConfig::ffn>},
    {{"n_layers"}, size<&ModelConfig::layers>},
    {{"n_heads"}, size<&ModelConfig::heads>},
    {spelt::kHeadSize,
     [](const ModelConfig& m) { return m.latent ? std::nullopt : Value(m.head_size()); }},
    {spelt::kHeadSize,
     [](const ModelConfig& m) { return Value(m.head_size()); },
     {"dots1", "glm4_moe", "qwen2_moe", "qwen3_moe"}},
    {spelt::kWidth, size<&ModelConfig::ffn>},
    {spelt::kWidth, expert_size<&ExpertShape::ffn>, {"llama4_text"}},
    {spelt::kInner, size<&ModelConfig::ffn>},
    {spelt::kOptWidth, size<&ModelConfig::ffn>},
    {spelt::kTied, [](const ModelConfig& m) { return Value(m.tied_embeddings); }},
    {spelt::kTied, [](const ModelConfig& m) { return Value(m.tied_embeddings); }, {"t5"}},
    {spelt::kEpsilon,
     [](const ModelConfig& m) {
       return Value(static_cast<double>(m.layer.norm_epsilon) / kEpsilonUnit);
     }},
    {spelt::kAttentionBias, [](const ModelConfig& m) { return Value(m.has_output_biases()); }},
    {spelt::kAttentionBias,
     [](const ModelConfig& m) { return Value(m.biases != Biases::kNone); },
     {"glm", "glm4", "glm4_moe", "seed_oss"}},
    {spelt::kOutputBias, [](const ModelConfig& m) { return Value(m.has_output_biases()); }},
    {spelt::kQkvBias, [](const ModelConfig& m) { return Value(m.biases == Biases::kQkv); }},
    {spelt::kUseBias, [](const ModelConfig& m) { return Value(m.biases == Biases::kAll); }},
    {{"norm_bias"}, [](const ModelConfig& m) { return Value(m.norm == Norm::kLayerNorm); }},
    {{"lm_head_bias"}, [](const ModelConfig& m) { return Value(m.layer.head_bias); }},
    {{"multi_query"}, [](const ModelConfig& m) { return Value(m.kv_heads == 1); }, {"gpt_bigcode"}},
    {{"rotary_dim"},
     [](const ModelConfig& m) {
       return Value(m.layer.rotary_size > 0 ? m.layer.rotary_size : m.head_size());
     },
     {"minimax_m2"}},
    {{"use_qk_norm"}, [](const ModelConfig& m) { return Value(m.qk_norm); }, {"glm4_moe"}},
    {spelt::kMlpBias, [](const ModelConfig& m) { return Value(m.biases == Biases::kAll); }},
    {spelt::kParallelResidual,
     [](const ModelConfig& m) {
       return Value(m.layer.parallel_residual != ParallelResidual::kNone);
     }},
    {spelt::kSegments, layer_size<&LayerFeatures::segments>},
    {spelt::kLearned, size<&ModelConfig::sequence>},
    {{"seq_length"}, size<&ModelConfig::sequence>, {"bloom"}},
    {{"n_positions"}, size<&ModelConfig::sequence>, {"t5"}},
    {spelt::kTheta, [](const ModelConfig& m) { return Value(real(m.rope_theta)); }},
    {{"rotary_emb_base"},
     [](const ModelConfig& m) { return Value(real(m.rope_theta)); },
     {"gpt_neox"}},
    {{"global_rope_theta"},
     [](const ModelConfig& m) { return Value(real(m.rope_theta)); },
     {"modernbert"}},
    {{"local_rope_theta"},
     [](const ModelConfig& m) {
       return Value(real(m.layer.local_rope_theta > 0 ? m.layer.local_rope_theta : m.rope_theta));
     },
     {"modernbert"}},
    {spelt::kLocalTheta,
     [](const ModelConfig& m) {
       return m.layer.local_rope_theta > 0 ? Value(real(m.layer.local_rope_theta)) : std::nullopt;
     }},
    {{"rotary_pct"}, rotary_share, {"gpt_neox"}},
    {{"partial_rotary_factor"}, rotary_share, {}, {}, {"gpt_neox"}},
    {{"rope_scaling"},
     linear_stretch,
     {},
     "rope_parameters",
     {"llama4_text", "modernbert", "phi3"}},
    {spelt::kTurnedLayers, turned_layers, {}, {}, {"llama4_text"}},
    {spelt::kWindow, [](const ModelConfig& m) { return Value(or_null(m.layer.window)); }},
    {spelt::kUsesWindow, [](const ModelConfig& m) { return Value(m.layer.window > 0); }},
    {spelt::kLayerTypes, layer_types, {}, {}, {"llama4_text"}},
    {spelt::kBothWayWindow,
     [](const ModelConfig& m) { return Value(2 * std::max<std::int64_t>(1, m.layer.window - 1)); }},
    {spelt::kEmbeddingFactor, embedding_factor},
    {spelt::kAttentionFactor, attention_factor},
    {spelt::kResidualFactor,
     [](const ModelConfig& m) { return Value(in_ones(m.layer.residual_factor)); }},
    {spelt::kLogitDivisor,
     [](const ModelConfig& m) { return Value(in_ones(m.layer.logit_divisor)); }},
    {spelt::kLogitScale,
     [](const ModelConfig& m) { return Value(1 / in_ones(m.layer.logit_divisor)); }},
    {spelt::kDivisor,
     [](const ModelConfig& m) {
       const std::int64_t divisor = m.layer.attention_divisor;
       return Value(divisor > 0 ? divisor : m.head_size());
     }},
    {spelt::kAttentionCap,
     [](const ModelConfig& m) { return Value(real_or_null(m.layer.attention_cap)); }},
    {spelt::kLogitCap, [](const ModelConfig& m) { return Value(real_or_null(m.layer.logit_cap)); }},
    {spelt::kQueryRank, latent_size<&LatentShape::query_rank>},
    {spelt::kKeyValueRank, latent_size<&LatentShape::key_value_rank>},
    {spelt::kNopeSize, latent_size<&LatentShape::nope_size>},
    {spelt::kRopeSize, latent_size<&LatentShape::rope_size>},
    {spelt::kValueSize, latent_size<&LatentShape::value_size>},
    {spelt::kIndexHeads, index_size<&IndexShape::heads>},
    {spelt::kIndexHeadSize, index_size<&IndexShape::head_size>},
    {spelt::kIndexKeys, index_size<&IndexShape::keys>},
    {spelt::kExperts, expert_size<&ExpertShape::count>},
    {spelt::kPerToken, expert_size<&ExpertShape::per_token>},
    {spelt::kExpertWidth, expert_size<&ExpertShape::ffn>},
    {spelt::kDenseWidth, size<&ModelConfig::ffn>},
    {spelt::kShared, shared_experts},
    {spelt::kFirstDense, expert_size<&ExpertShape::dense_layers>},
    {spelt::kDenseLayers, dense_layers},
    {spelt::kSparseStep, expert_size<&ExpertShape::every>},
    {spelt::kInterleave, expert_size<&ExpertShape::every>},
    {spelt::kRenormalised,
     [](const ModelConfig& m) {
       return of_experts(m, [](const ExpertShape& e) { return e.renormalised; });
     }},
    {spelt::kScale,
     [](const ModelConfig& m) {
       return of_experts(m, [](const ExpertShape& e) { return e.scale; });
     }},
    {spelt::kBalance,
     [](const ModelConfig& m) {
       return of_experts(m, [](const ExpertShape& e) { return e.balance; });
     }},
    {{"aux_loss_alpha"},
     [](const ModelConfig& m) {
       return of_experts(m, [](const ExpertShape& e) { return e.balance; });
     },
     {"deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "glm4_moe", "glm_moe_dsa"}},
    // The loss of balance is added to that of the tokens where the router's logits are given out.
    {{"output_router_logits"},
     [](const ModelConfig& m) { return Value(m.balances_experts()); },
     {"mixtral", "olmoe", "phimoe", "qwen2_moe", "qwen3_moe"}},
    {spelt::kMethod, choice_method},
    {spelt::kSharedWidth, expert_size<&ExpertShape::shared_ffn>},
    {{"shared_expert_intermediate_size"}, expert_size<&ExpertShape::shared_ffn>},
    {{"qkv_bias"},
     [](const ModelConfig& m) { return Value(m.biases == Biases::kQkv); },
     {"qwen2_moe"}},
    {{"moe_num_experts"}, expert_size<&ExpertShape::count>},
    {{"moe_k"}, expert_size<&ExpertShape::per_token>},
    {{"moe_num_shared_experts"}, shared_experts},
    {{"moe_layer_start_index"}, expert_size<&ExpertShape::dense_layers>},
    {spelt::kGroups, expert_size<&ExpertShape::groups>},
    {spelt::kGroupsPerToken, expert_size<&ExpertShape::groups_per_token>},
    {spelt::kLimit,
     [](const ModelConfig& m) {
       return Value(static_cast<double>(m.layer.activation_limit) / kLimitUnit);
     }},
    {spelt::kEncoderLayers, size<&ModelConfig::encoder_layers>},
    {spelt::kDecoderLayers,
     [](const ModelConfig& m) { return Value(m.layers - m.encoder_layers); }},
    {{"encoder_layers"}, size<&ModelConfig::encoder_layers>},
    {{"decoder_layers"}, [](const ModelConfig& m) { return Value(m.layers - m.encoder_layers); }},
    {{"encoder_attention_heads"}, size<&ModelConfig::heads>},
    {{"decoder_attention_heads"}, size<&ModelConfig::heads>},
    {{"encoder_ffn_dim"}, size<&ModelConfig::ffn>},
    {{"decoder_ffn_dim"}, size<&ModelConfig::ffn>},
    {{"scale_embedding"}, [](const ModelConfig& m) { return Value(m.layer.scaled_embedding); }},
    {spelt::kT5Hidden, size<&ModelConfig::hidden>},
    {spelt::kT5Heads, size<&ModelConfig::heads>},
    {spelt::kT5HeadSize, [](const ModelConfig& m) { return Value(m.head_size()); }},
    {spelt::kT5Width, size<&ModelConfig::ffn>},
    {spelt::kT5Mlp,
     [](const ModelConfig& m) { return Value(m.gated_mlp ? spelt::kGatedMlp : spelt::kPlainMlp); }},
    {spelt::kBuckets, layer_size<&LayerFeatures::relative_buckets>},
    {spelt::kDistance, layer_size<&LayerFeatures::relative_distance>},
    {{"decoder_start_token_id"}, [](const ModelConfig&) { return Value(0); }, {"t5"}},
    // The class's own may lie outside of a small vocabulary.
    {{"pad_token_id"}, [](const ModelConfig&) { return Value(nullptr); }, {"phi3"}},
};

// By which the class knows it; empty: it does not.
std::string_view spelling(const Row& row, std::string_view model_type, JsonObject& defaults) {
  const auto has = [&](const Names& types) {
    return std::ranges::find(types, model_type) != types.end();
  };
  if (has(row.without)) return {};
  if (!row.types.empty()) return has(row.types) ? *row.keys.begin() : std::string_view();
  if (!row.beside.empty())
    return defaults.optional_member(row.beside) ? *row.keys.begin() : std::string_view();
  for (const std::string_view key : row.keys)
    if (defaults.optional_member(key)) return key;
  return {};
}

// What is dropped is of attention, embeddings and branches, not of activations in an MLP.
void write_dropout(Json& file, JsonObject& defaults, bool drops) {
  for (const std::string_view key : spelt::kDropout)
    if (defaults.optional_member(key)) file[std::string(key)] = drops ? kDropped : 0.0;
  const std::string inner(spelt::kActivationDropout);
  if (file.contains(inner)) file[inner] = 0.0;
}

}  // namespace

std::string written_keys(const ModelConfig& model, std::string_view model_type, JsonObject defaults,
                         bool drops) {
  Json file = {{"model_type", model_type}};
  for (const Row& row : kRows) {
    const std::string_view key = spelling(row, model_type, defaults);
    if (key.empty()) continue;
    if (Value value = row.of(model)) file[std::string(key)] = std::move(*value);
  }
  for (const std::string_view key : spelt::kActivation)
    if (const auto usual = defaults.optional_member(key))
      file[std::string(key)] = activation_word(model, usual->string());
  write_dropout(file, defaults, drops);
  return file.dump(kIndent) + "\n";
}

std::string with_dropout(const std::string& text, JsonObject defaults, bool drops) {
  const JsonNode file = parse_python_json(text, "config.json");
  Json changes = Json::object();
  if (file.object().optional_member(spelt::kActivationDropout))
    changes[std::string(spelt::kActivationDropout)] = 0.0;
  write_dropout(changes, defaults, drops);
  return json_text(written_over(file, parse_json(changes.dump(), "dropout"))) + "\n";
}

}  // namespace zplan
