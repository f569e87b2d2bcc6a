// The shape of a decoder: its sizes, and features that go together freely. An architecture stands
// for the features of a family and for the names and the initialisation of its tensors:
//   gpt    learned positions, pre-LayerNorm with biases, GELU (tanh) MLP, biases on every linear
//          layer except the output head [Radford19]
//   llama  rotary positions, pre-RMSNorm, SwiGLU MLP, no biases [Touvron23]
// A file that names single features overrides those of its architecture; those of later families
// stand in layer_features.h.
// File format "zplan.model/1"; the catalogue models/catalogue/*.json is compiled into the library.
// Every shape number has a source: the file's general one or its own. Decides nothing about
// parallelism, precision or padding (see model_formulas.h for counts).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/layer_features.h"
#include "models/layer_pattern.h"
#include "models/part_factors.h"
#include "models/vision_shape.h"

namespace zplan {

inline constexpr std::int64_t kMostLayers = 10'000;  // of a model that is read
inline constexpr double kUsualMtpLoss = 0.1;         // --mtp-loss-scaling-factor [MegatronCore]

enum class Architecture : std::uint8_t { kGpt, kLlama };
// ALiBi lowers scores by distance [Press22].
enum class Position : std::uint8_t { kNone, kLearned, kRope, kAlibi };
// A LayerNorm has a gain and a bias, the one without bias a gain alone, the fixed one neither.
enum class Norm : std::uint8_t { kLayerNorm, kRmsNorm, kLayerNormNoBias, kLayerNormFixed };
// Linear layers have these biases: none, that of the product of queries, keys and values, those of
// all products of attention, or all.
enum class Biases : std::uint8_t { kNone, kQkv, kAttention, kAll };

// Multi-head latent attention [DeepSeek24 sec 2.1]: what a head has of a query and of a key are
// `nope_size` elements of its own and `rope_size` that carry the position, which all keys share.
struct LatentShape {
  std::int64_t query_rank = 0;      // of the latent of queries; 0: they have none
  std::int64_t key_value_rank = 0;  // of the latent of keys and values
  std::int64_t nope_size = 0;
  std::int64_t rope_size = 0;
  std::int64_t value_size = 0;  // of a head
};

// An indexer beside latent attention [DeepSeek25b sec 2.1]: n heads of e elements make queries of
// the latent of queries, and one key of each token, normalised; a query and a key before it score
// sum_n w_n ReLU(q_n k) / sqrt(n e), the weights w being a product of the token. A query sees the
// keys that score highest. What the indexer reads is no part of the gradient of the loss; it learns
// from a loss of its own, the mean over tokens of KL(p | softmax(scores)) over the keys that were
// chosen, p being what heads give each of them on the mean.
struct IndexShape {
  std::int64_t heads = 0;      // n
  std::int64_t head_size = 0;  // e, of which those of a key that carry its position turn
  std::int64_t keys = 0;       // that a query sees at most
};

// Scores of a router: softmax of the logits over all experts, or the sigmoid of each.
enum class Scores : std::uint8_t { kSoftmax, kSigmoid };

// A mixture of experts in place of the MLP: MLPs of one width, of which each token goes through the
// few that the router scores highest [Lepikhin20 sec 2.2], [Fedus21 sec 2.1]. The result is the sum
// of theirs, weighted by their scores. Where all linear layers have biases, so have the products of
// each expert and the logits of the router [Agarwal25 sec 2.2].
struct ExpertShape {
  std::int64_t count = 0;         // E
  std::int64_t per_token = 0;     // k
  std::int64_t ffn = 0;           // width of one
  std::int64_t dense_layers = 0;  // the first layers, which have an MLP instead
  std::int64_t every = 1;         // of the others the first and every so-many-th have experts
  std::int64_t shared_ffn = 0;    // of a further MLP that all tokens go through; 0: none
  // The result of that is multiplied by a gate: the sigmoid of a product of token and vector.
  bool shared_gate = false;
  // Experts work on so many elements of a token: a matrix h x l before them makes these of all of
  // it, one of l x h behind their sum the other way round. The expert that all tokens share has h.
  // 0: all have h.
  std::int64_t latent = 0;
  Scores scores = Scores::kSoftmax;
  bool renormalised = true;  // the weights of the chosen ones sum to 1
  // Experts in `groups` equal groups, of which a token goes to those of up to `groups_per_token`:
  // the groups whose best expert, with a bias whose two best together, have the highest scores
  // [DeepSeek24 sec 2.2.2], [DeepSeek25 sec 2.1.2].
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  bool selection_bias = false;  // added to the scores that experts are chosen by, and to no weight
  double scale = 1;             // of the weights
  double balance = 0;           // coefficient of the auxiliary loss [Fedus21 Eq.4]; 0: none
  // By which the selection bias of an expert with less than the mean load rises each step, and that
  // of one with more falls [Wang24 Algorithm 1]; 0: it stays as it begins.
  double bias_rate = 0;

  // Whether layers with and without experts take turns, of `every` layers each.
  bool takes_turns() const { return every > 1; }
  bool is_in(std::int64_t layer) const {
    return layer >= dense_layers && (layer - dense_layers) % every == 0;
  }
};

// Published weights of the same shape that were trained on other sequences.
struct ModelVariant {
  std::vector<std::string> names;
  std::int64_t trained_positions = 0;
  std::string source;
};

struct ModelConfig {
  std::string name;
  Architecture architecture = Architecture::kGpt;
  Position position = Position::kLearned;
  Norm norm = Norm::kLayerNorm;
  Biases biases = Biases::kAll;
  bool gated_mlp = false;  // SwiGLU of two first products, else GELU of one
  LayerFeatures layer{};   // what layers of later families do otherwise
  // An RMSNorm of each head of queries and keys, before positions, or of all heads together.
  bool qk_norm = false;
  std::int64_t layers = 0;  // L, an encoder's among them
  // The first layers, if any, are an encoder: they see both ways, and the others, a decoder's, have
  // cross-attention to what the last of them gives, normalised [Vaswani17 sec 3.1]. Both look their
  // tokens up in one table, learned positions in one each. The encoder reads as many tokens.
  std::int64_t encoder_layers = 0;
  // Modules of multi-token prediction behind the last layer, D of them [DeepSeek25 sec 2.2]. Module
  // k reads, of every token, what the module before it gives (the first: the model), behind its
  // final norm, and the embedding of the token k further; a norm of each, a product of both with a
  // matrix 2h x h, a layer of the kind of the last one and a norm give what the model's output head
  // predicts token k + 1 further from. Embedding and head are the model's. The loss is that of the
  // model plus `mtp_loss` / D times that of each module.
  std::int64_t mtp_layers = 0;
  double mtp_loss = kUsualMtpLoss;
  std::int64_t hidden = 0;            // h
  std::int64_t heads = 0;             // a
  std::int64_t kv_heads = 0;          // g, which divides a
  std::int64_t own_head_size = 0;     // d where it is not h / a; 0: h / a
  std::optional<LatentShape> latent;  // every head has a key and a value of its own then
  std::optional<IndexShape> index;    // with a latent of queries
  std::int64_t ffn = 0;               // MLP width, usually 4 h; that of experts, with no other MLP
  std::optional<ExpertShape> experts;
  // The pattern says what each layer is made of, where not all have attention and then an MLP or
  // experts; empty: all have. Experts and MLP are where it says.
  LayerPattern pattern{};
  std::optional<MambaShape> mamba;
  std::optional<DeltaShape> delta;
  std::optional<KimiShape> kimi;
  std::optional<SelectiveShape> selective;
  std::optional<ShortShape> short_convolution;
  PartFactors factors{};              // of layers of a pattern
  std::optional<VisionShape> vision;  // in front of the embedding; its layers are not among L
  std::int64_t vocab = 0;             // V, unpadded
  std::int64_t sequence = 0;          // s, tokens
  bool tied_embeddings = true;
  std::int64_t rope_theta = 0;    // base of the rotary angles; 0 without them
  std::int64_t global_batch = 0;  // default: sequences per optimizer step over the whole job
  std::string source;             // where the shape comes from
  std::vector<std::string> aliases;
  std::vector<std::string> sizes;  // "13B": what is meant where nothing but a size is typed
  std::vector<ModelVariant> variants;
  // Positions that the published weights were trained on, where they are not learned; 0: unknown.
  // They bound no plan.
  std::int64_t trained_positions = 0;
  std::vector<std::pair<std::string, std::string>> field_sources;  // field -> its own source

  // d, of queries and keys, and of values.
  std::int64_t head_size() const {
    if (latent) return latent->nope_size + latent->rope_size;
    return own_head_size > 0 ? own_head_size : hidden / heads;
  }
  std::int64_t value_size() const { return latent ? latent->value_size : head_size(); }
  // Bounds attention: none of its tensors has more columns, and its matrices have at most four
  // times the square of this, or of h where that is more.
  std::int64_t attention_bound() const;
  // Of a layer's matrices, what tensor parallel ranks do not cut.
  std::int64_t uncut_elements() const;
  // Of those that they cut the greatest common divisors: of their elements, and of the widths of
  // what stands side by side in them.
  std::int64_t matrix_divisor() const;
  std::int64_t width_divisor() const;
  // Whether tensor parallel ranks cut vectors of a layer, too.
  bool cuts_vectors() const {
    return biases != Biases::kNone || layer.attention_sinks || layer.whole_qk_norm || has_states();
  }
  // Columns of what all heads give: a d, or a times the size of values.
  std::int64_t attention_width() const { return heads * value_size(); }
  // Learned positions; 0 where there are none. Beside them the table may have unused rows.
  std::int64_t positions() const { return position == Position::kLearned ? sequence : 0; }
  // Columns of queries, keys and values together: (a + 2 g) d where all have one size.
  std::int64_t qkv_width() const {
    return (heads + kv_heads) * head_size() + kv_heads * value_size();
  }
  // Columns of the first product of the MLP: f, or gate and up side by side.
  std::int64_t up_width() const { return gated_mlp ? 2 * ffn : ffn; }
  // Returns whether a branch's last product has a bias.
  bool has_output_biases() const { return biases == Biases::kAttention || biases == Biases::kAll; }
  // Vectors of h elements that a norm has.
  std::int64_t norm_vectors() const {
    return norm == Norm::kLayerNorm ? 2 : norm == Norm::kLayerNormFixed ? 0 : 1;
  }
  // Whether each expert has biases, and how many it has then.
  bool has_expert_biases() const { return experts && biases == Biases::kAll; }
  std::int64_t expert_bias_width() const {
    return has_expert_biases() ? (gated_mlp ? 2 : 1) * experts->ffn + expert_hidden() : 0;
  }
  // Elements of a token that experts work on.
  std::int64_t expert_hidden() const {
    return experts && experts->latent > 0 ? experts->latent : hidden;
  }
  std::int64_t expert_count() const { return experts ? experts->count : 0; }
  std::int64_t experts_per_token() const { return experts ? experts->per_token : 0; }
  std::int64_t expert_ffn() const { return experts ? experts->ffn : 0; }
  // Counts the layers of the model and of its modules of multi-token prediction.
  std::int64_t all_layers() const { return layers + mtp_layers; }
  // Returns what layer i has; the layers of modules of multi-token prediction come last.
  LayerParts parts_of(std::int64_t layer) const;
  bool has_pattern() const { return !pattern.empty(); }
  // Layers of a pattern with these.
  std::int64_t layers_with(Mixer mixer) const;
  std::int64_t layers_with(FeedForward feed_forward) const;
  // Layers of a pattern that have attention or Mamba-2, alone or side by side.
  std::int64_t attention_layers() const;
  std::int64_t mamba_layers() const;
  // Returns whether tokens are mixed by a state that goes through the sequence.
  bool has_states() const { return mamba || delta || kimi || selective || short_convolution; }
  // Returns the greatest common divisor of the numbers of heads and groups of such states, which
  // tensor parallel ranks cut; 0: there are none.
  std::int64_t state_heads_divisor() const;
  // Layers that have experts, and those that have an MLP instead.
  std::int64_t expert_layers() const {
    if (has_pattern()) return layers_with(FeedForward::kExperts);
    return experts ? (layers - experts->dense_layers + experts->every - 1) / experts->every : 0;
  }
  std::int64_t dense_layers() const {
    if (has_pattern()) return layers_with(FeedForward::kMlp);
    return experts ? layers - expert_layers() : 0;
  }
  bool has_mlp() const { return has_pattern() || experts ? dense_layers() > 0 : true; }
  // After so many layers kinds of layers that take turns begin again.
  std::int64_t kind_layers() const {
    if (has_pattern()) return pattern_period(pattern);
    return experts ? experts->every : 1;
  }
  // The first layers, where they are of another kind than all others.
  std::int64_t first_layers() const {
    if (has_pattern()) return 0;
    if (encoder_layers > 0) return encoder_layers;
    if (layer.bare_first_branch) return 1;
    return experts && !experts->takes_turns() ? experts->dense_layers : 0;
  }
  std::int64_t shared_ffn() const { return experts ? experts->shared_ffn : 0; }
  bool has_plain_scores() const {
    return encoder_layers == 0 && position != Position::kAlibi && layer.has_plain_scores();
  }
  bool balances_experts() const { return experts && experts->balance > 0; }
  bool moves_selection_bias() const { return experts && experts->bias_rate > 0; }
  VisionSizes vision_sizes() const { return vision ? vision->sizes() : VisionSizes{}; }
  // The source of one field ("vocab"): its own, else the general one.
  const std::string& source_of(std::string_view field) const;
};

// A size or feature as a file writes it.
struct ModelField {
  std::string_view name;
  FeatureValue value;
};
// Those of a model, in the order in which it is shown.
std::vector<ModelField> fields_of(const ModelConfig& model);

// The model whose layers are all as those of a model with layers of two kinds that have no experts,
// or are an encoder's.
ModelConfig plain_layers_of(ModelConfig model);

// The model whose layers are all as layer i of this one, which has a pattern.
ModelConfig layer_of_pattern(ModelConfig model, std::int64_t layer);

// Gives the model the features of a family; its sizes stay.
void set_architecture(ModelConfig& model, Architecture architecture);

// `name_or_path`: a file when it looks like a path (planner/core/text.h), else a catalogue name or
// alias ("1T", "gpt2"), case-insensitive, a size, or what people type (model_spelling.h). Throws
// Error naming the nearest names.
ModelConfig load_model(std::string_view name_or_path);

// A model of the catalogue by its name or an alias, case-insensitive; nothing: there is none.
std::optional<ModelConfig> catalogue_model(std::string_view name);

// Takes the positions of the variant that a name means; nothing: it means none.
const ModelVariant* take_variant(ModelConfig& model, std::string_view name);

// Reads one "zplan.model/1" document; `file_name` stands for it in messages.
ModelConfig parse_model(std::string text, std::string file_name);

// All built-in models, by ascending parameter count.
std::vector<ModelConfig> model_catalogue();

// Throws Error unless the numbers make a model (a path-built or edited config is checked too).
void validate(const ModelConfig& model);

std::string_view name(Architecture architecture);
std::string_view name(Position position);
std::string_view name(Norm norm);
std::string_view name(Biases biases);
std::string_view name(Scores scores);

}  // namespace zplan
