// What layers of families after GPT-2 and Llama do otherwise, feature by feature: which keys a
// query sees, what becomes of scores and logits, how rotary positions turn, where norms stand. Each
// goes with the others unless features_contradiction says why not.
//
// A norm whose gain is published as 1 + w, as Gemma's, is one with that gain: gains do not decay,
// so that both train alike; only the number stored differs, by one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "planner/core/json_reader.h"

namespace zplan {

// The MLP has one; usual is the tanh form of GELU [Hendrycks16] or, gated, SiLU [Shazeer20]. Quick
// GELU is x sigmoid(1.702 x) [Hendrycks16 sec 2]; squared ReLU is max(0, x)^2 [So21].
enum class Activation : std::uint8_t {
  kUsual,
  kGeluTanh,
  kGelu,
  kSilu,
  kRelu,
  kQuickGelu,
  kSquaredRelu
};
// Whether both branches of a layer read its input: x + attention(norm x) + mlp(norm x), with a norm
// for each [Black22] or one for both [Wang21].
enum class ParallelResidual : std::uint8_t { kNone, kTwoNorms, kOneNorm };

inline constexpr std::int64_t kUsualRelativeDistance = 128;  // tokens [Raffel20 sec 2.1]
inline constexpr double kEpsilonUnit = 1e12;
// Factors that a model has are decimal numbers, in units of 1e-9.
inline constexpr std::int64_t kFactorUnit = 1'000'000'000;
inline constexpr std::int64_t kUsualNormEpsilon = 10'000'000;  // 1e-5, in units of 1e-12

struct LayerFeatures {
  Activation activation = Activation::kUsual;
  // Of a gated MLP [Agarwal25 sec 2.2]: the gate is at most the limit, what it multiplies lies
  // between minus the limit and it, and the offset is added to that. Units of 1e-9; 0: no limit.
  std::int64_t activation_limit = 0;
  std::int64_t up_offset = 0;
  ParallelResidual parallel_residual = ParallelResidual::kNone;
  bool post_norms = false;  // a norm of what each branch gives, too, before it is added
  // The same norms, and none before the branches, which read the stream itself [OLMo24 sec 3.1].
  bool only_post_norms = false;
  bool bare_first_branch = false;  // the first layer has no norm before attention
  // The norms of queries and of keys are each over all of their heads, with a gain of each element.
  bool whole_qk_norm = false;
  // A branch's result is added to its normalised input, not to what the norm reads: each norm is
  // the one behind the branch before, as in [Vaswani17] and [Devlin19]; the first is that of the
  // embeddings, that behind the last layer the one of its last branch.
  bool residual_of_norm = false;
  bool embedding_norm = false;    // a norm of the embeddings, before the first layer
  bool scaled_embedding = false;  // token embeddings are taken sqrt(h) times
  bool scaled_logits = false;     // what the head reads is divided by sqrt(h) [Raffel20]
  bool head_bias = false;         // logits have a bias without what head_transform has besides
  // Between the norm behind the layers and the output matrix stand a product of h x h with a bias,
  // the activation of the MLP and a norm, and logits have a bias [Devlin19 sec 3.1].
  bool head_transform = false;
  // A query sees all keys, and the loss is that of masked tokens [Devlin19].
  bool bidirectional = false;
  bool attention_sinks = false;  // a score of each head that no key has [Xiao24]
  // The result of attention is multiplied, before the projection, by the sigmoid of a further
  // product of attention's input, as wide as the result [Qiu25].
  bool attention_gate = false;
  std::int64_t norm_epsilon = kUsualNormEpsilon;
  // Token embeddings are taken the root of this times; 0: once.
  std::int64_t embedding_square = 0;
  // The result of a branch is multiplied by the former before it is added; the input of the head is
  // divided by the latter. Both are in units of 1 / kFactorUnit.
  std::int64_t residual_factor = kFactorUnit;
  std::int64_t logit_divisor = kFactorUnit;
  std::int64_t attention_divisor = 0;  // scores are divided by its root; 0: by that of d
  std::int64_t attention_cap = 0;      // c of scores c tanh(x / c) [Gemma24]; 0: none
  std::int64_t logit_cap = 0;          // the same of logits
  // Layers come in turns of `window_layers` in which a query sees the last `window` tokens, its own
  // among them, and `full_layers` in which it sees all before it. 0: all see all. One that sees
  // both ways sees so many tokens on either side, its own among both.
  std::int64_t window = 0;
  std::int64_t window_layers = 1;
  std::int64_t full_layers = 0;
  bool full_layers_first = false;  // turns begin with these
  std::int64_t rotary_size = 0;    // elements of a head that turn, its first; 0: all
  // The last of so many layers has no positions where those of the others are rotary; 0: all have
  // them.
  std::int64_t unturned_every = 0;
  std::int64_t rope_stretch = 1;      // by which positions are divided
  std::int64_t local_rope_theta = 0;  // with a window, where positions are not divided; 0: as else
  std::int64_t unused_positions = 0;  // rows of the learned positions before the first token's
  // Of equal parts of each sequence: the tokens of each have a learned vector of it [Devlin19
  // sec 3.2]. 0: there are none.
  std::int64_t segments = 0;
  // Biases of scores: each head of a stack has a number for so many buckets of the distance of key
  // and query, from `relative_distance` on the last one [Raffel20 sec 2.1]. 0: none.
  std::int64_t relative_buckets = 0;
  std::int64_t relative_distance = kUsualRelativeDistance;

  // Whether attention is that of all keys up to the query's own, scaled by the head's size.
  bool has_plain_scores() const {
    return window == 0 && attention_cap == 0 && attention_divisor == 0 && !attention_sinks &&
           !bidirectional && relative_buckets == 0;
  }
  bool has_pre_norms() const { return !only_post_norms; }
  bool has_post_norms() const { return post_norms || only_post_norms; }
  bool scales_branches() const { return residual_factor != kFactorUnit; }
  // Returns whether layers of several kinds take turns.
  bool has_turns() const { return turn_layers() > 1; }
  // Layers of a turn of those with a window and those without.
  std::int64_t window_turn() const {
    return window > 0 && full_layers > 0 ? window_layers + full_layers : 1;
  }
  // After so many layers they begin again.
  std::int64_t turn_layers() const {
    return std::lcm(window_turn(), std::max<std::int64_t>(1, unturned_every));
  }
  // What layer i has; 0: all.
  std::int64_t window_of(std::int64_t layer) const {
    const std::int64_t from_windows = layer + (full_layers_first ? window_layers : 0);
    return window > 0 && from_windows % window_turn() < window_layers ? window : 0;
  }
  // Returns whether layer i rotates heads where positions are rotary.
  bool turns(std::int64_t layer) const {
    return unturned_every == 0 || (layer + 1) % unturned_every != 0;
  }
  friend bool operator==(const LayerFeatures&, const LayerFeatures&) = default;
};

LayerFeatures read_layer_features(JsonObject& object);

// Those that are not as in GPT-2 or Llama, as a file writes them.
using FeatureValue = std::variant<std::int64_t, bool, std::string_view, double, std::string>;
std::vector<std::pair<std::string_view, FeatureValue>> shown_features(const LayerFeatures& x);

// Of a model beside these features.
struct FeatureSurroundings {
  bool rotary = false, learned = false, alibi = false, latent = false;
  bool output_biases = false;  // of the last product of a branch
  bool gated = false, encoder = false, qk_norm = false;
  std::int64_t head_size = 0;
};
// The field that cannot be so, and why.
struct FeatureContradiction {
  std::string_view field;
  std::string message;
};
std::optional<FeatureContradiction> features_contradiction(const LayerFeatures& x,
                                                           const FeatureSurroundings& model);

std::string_view name(Activation activation);
std::string_view name(ParallelResidual residual);

}  // namespace zplan
