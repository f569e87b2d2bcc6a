#include "models/layer_features.h"

#include <fmt/format.h>

#include <cmath>

namespace zplan {
namespace {

using F = LayerFeatures;

struct Count {
  std::string_view name;
  std::int64_t F::*member;
  std::int64_t max;
};
constexpr Count kCounts[] = {
    {"attention_divisor", &F::attention_divisor, 1 << 24},
    {"attention_cap", &F::attention_cap, 1 << 24},
    {"logit_cap", &F::logit_cap, 1 << 24},
    {"window", &F::window, 1 << 24},
    {"window_layers", &F::window_layers, 16},
    {"full_layers", &F::full_layers, 16},
    {"rotary_size", &F::rotary_size, 1 << 16},
    {"rope_stretch", &F::rope_stretch, 1 << 16},
    {"local_rope_theta", &F::local_rope_theta, 1'000'000'000'000},
    {"unused_positions", &F::unused_positions, 1 << 10},
    {"up_offset", &F::up_offset, 1 << 10},
    {"segments", &F::segments, 16},
    {"relative_buckets", &F::relative_buckets, 128},
    {"relative_distance", &F::relative_distance, 1 << 20},
    {"embedding_square", &F::embedding_square, 1 << 24},
    {"unturned_every", &F::unturned_every, 16},
};
struct Switch {
  std::string_view name;
  bool F::*member;
};
constexpr Switch kSwitches[] = {
    {"post_norms", &F::post_norms},
    {"residual_of_norm", &F::residual_of_norm},
    {"embedding_norm", &F::embedding_norm},
    {"scaled_embedding", &F::scaled_embedding},
    {"scaled_logits", &F::scaled_logits},
    {"head_transform", &F::head_transform},
    {"attention_sinks", &F::attention_sinks},
    {"bidirectional", &F::bidirectional},
    {"only_post_norms", &F::only_post_norms},
    {"whole_qk_norm", &F::whole_qk_norm},
    {"head_bias", &F::head_bias},
    {"full_layers_first", &F::full_layers_first},
    {"bare_first_branch", &F::bare_first_branch},
    {"attention_gate", &F::attention_gate},
};
// Decimal numbers that are kept in units.
struct Decimal {
  std::string_view name;
  std::int64_t F::*member;
  double unit, least, most;
};
constexpr std::string_view kEpsilon = "norm_epsilon", kLimit = "activation_limit";
constexpr Decimal kDecimals[] = {
    {kEpsilon, &F::norm_epsilon, kEpsilonUnit, 1e-12, 1e-3},
    {kLimit, &F::activation_limit, 1e9, 1e-9, 1e6},
    {"residual_factor", &F::residual_factor, kFactorUnit, 1e-6, 1e6},
    {"logit_divisor", &F::logit_divisor, kFactorUnit, 1e-6, 1e6},
};
constexpr std::int64_t kMostTurn = 16;  // layers that a loop goes through at a time

constexpr std::string_view kActivations[] = {"usual", "gelu_tanh",  "gelu",        "silu",
                                             "relu",  "quick_gelu", "squared_relu"};
constexpr std::string_view kResiduals[] = {"none", "two_norms", "one_norm"};

template <typename Enum, std::size_t kWords>
void read_word(JsonObject& object, std::string_view member, const std::string_view (&words)[kWords],
               Enum& value) {
  const auto node = object.optional_member(member);
  if (!node) return;
  const std::vector<std::string> allowed(std::begin(words), std::end(words));
  const std::string word = node->one_of(allowed);
  for (std::size_t i = 0; i < kWords; ++i)
    if (words[i] == word) value = static_cast<Enum>(i);
}

}  // namespace

std::string_view name(Activation activation) {
  return kActivations[static_cast<std::size_t>(activation)];
}

std::string_view name(ParallelResidual residual) {
  return kResiduals[static_cast<std::size_t>(residual)];
}

LayerFeatures read_layer_features(JsonObject& object) {
  LayerFeatures features;
  read_word(object, "activation", kActivations, features.activation);
  read_word(object, "parallel_residual", kResiduals, features.parallel_residual);
  for (const Switch& field : kSwitches)
    if (const auto node = object.optional_member(field.name))
      features.*field.member = node->boolean();
  for (const Count& field : kCounts)
    if (const auto node = object.optional_member(field.name))
      features.*field.member = node->integer(1, field.max);
  for (const Decimal& field : kDecimals)
    if (const auto node = object.optional_member(field.name))
      features.*field.member = std::llround(node->number(field.least, field.most) * field.unit);
  return features;
}

std::vector<std::pair<std::string_view, FeatureValue>> shown_features(const LayerFeatures& x) {
  const LayerFeatures plain;
  std::vector<std::pair<std::string_view, FeatureValue>> all;
  if (x.activation != plain.activation) all.emplace_back("activation", name(x.activation));
  if (x.parallel_residual != plain.parallel_residual)
    all.emplace_back("parallel_residual", name(x.parallel_residual));
  for (const Switch& field : kSwitches)
    if (x.*field.member) all.emplace_back(field.name, true);
  for (const Count& field : kCounts)
    if (x.*field.member != plain.*field.member) all.emplace_back(field.name, x.*field.member);
  for (const Decimal& field : kDecimals)
    if (x.*field.member != plain.*field.member)
      all.emplace_back(field.name, static_cast<double>(x.*field.member) / field.unit);
  return all;
}

// Of biases by distance.
std::optional<FeatureContradiction> relative_contradiction(const LayerFeatures& x,
                                                           const FeatureSurroundings& model) {
  using Found = FeatureContradiction;
  constexpr std::string_view kBuckets = "relative_buckets", kDistance = "relative_distance";
  constexpr std::int64_t kParts = 4;  // before the query and behind it, near and far
  if (x.relative_buckets == 0) {
    if (x.relative_distance == kUsualRelativeDistance) return std::nullopt;
    return Found{kDistance, "expected no relative_distance without relative_buckets"};
  }
  if (!model.encoder) return Found{kBuckets, "expected relative_buckets with encoder_layers only"};
  if (model.learned)
    return Found{kBuckets, "expected no relative_buckets with position \"learned\""};
  if (x.relative_buckets % kParts != 0)
    return Found{kBuckets, fmt::format("expected a multiple of {} buckets, got {}", kParts,
                                       x.relative_buckets)};
  if (x.relative_distance <= x.relative_buckets / 2)
    return Found{kDistance, fmt::format("expected more than {}, half of the buckets, got {}",
                                        x.relative_buckets / 2, x.relative_distance)};
  return std::nullopt;
}

// Checks norms and factors of branches, and what stands at the ends of the model.
std::optional<FeatureContradiction> branch_contradiction(const LayerFeatures& x,
                                                         const FeatureSurroundings& model) {
  using Found = FeatureContradiction;
  const std::string_view norms = x.only_post_norms ? "only_post_norms" : "post_norms";
  if (x.has_post_norms() && model.output_biases)
    return Found{norms, fmt::format("expected biases \"none\" or \"qkv\" with {}, which stand "
                                    "between a branch's last product and its bias",
                                    norms)};
  if (x.has_post_norms() && x.parallel_residual != ParallelResidual::kNone)
    return Found{norms, fmt::format("expected no {} with a parallel residual", norms)};
  if (x.only_post_norms && x.post_norms)
    return Found{"only_post_norms", "expected post_norms or only_post_norms, got both"};
  if (x.only_post_norms && x.residual_of_norm)
    return Found{"only_post_norms",
                 "expected no only_post_norms with residual_of_norm, which adds to what a norm "
                 "before a branch gives"};
  if (x.residual_of_norm && x.parallel_residual != ParallelResidual::kNone)
    return Found{"residual_of_norm", "expected no residual_of_norm with a parallel residual"};
  if (x.scales_branches() && model.output_biases)
    return Found{"residual_factor",
                 "expected biases \"none\" or \"qkv\" with a residual_factor: those of a branch's "
                 "last product are added with the residual"};
  if (x.bare_first_branch &&
      (x.only_post_norms || x.residual_of_norm || x.parallel_residual != ParallelResidual::kNone))
    return Found{
        "bare_first_branch",
        "expected no bare_first_branch with only_post_norms, residual_of_norm or a parallel "
        "residual"};
  if (x.whole_qk_norm && !model.qk_norm)
    return Found{"whole_qk_norm", "expected whole_qk_norm with qk_norm only"};
  if (x.embedding_square > 0 && x.scaled_embedding)
    return Found{"embedding_square", "expected embedding_square or scaled_embedding, got both"};
  if (x.logit_divisor != kFactorUnit && x.scaled_logits)
    return Found{"logit_divisor", "expected logit_divisor or scaled_logits, got both"};
  if (x.head_bias && x.head_transform)
    return Found{"head_bias", "expected no head_bias with head_transform, which has one"};
  return std::nullopt;
}

std::optional<FeatureContradiction> features_contradiction(const LayerFeatures& x,
                                                           const FeatureSurroundings& model) {
  using Found = FeatureContradiction;
  const LayerFeatures plain;
  if (x.window == 0 && (x.full_layers > 0 || x.window_layers != plain.window_layers))
    return Found{x.full_layers > 0 ? "full_layers" : "window_layers",
                 "expected layers in turns with a window only"};
  if (x.full_layers_first && x.window_turn() == 1)
    return Found{"full_layers_first", "expected full_layers_first with full_layers only"};
  if (x.turn_layers() > kMostTurn)
    return Found{
        x.full_layers > 0 ? "full_layers" : "unturned_every",
        fmt::format("expected turns of up to {} layers, got {}", kMostTurn, x.turn_layers())};
  if (!model.rotary && x.unturned_every > 0)
    return Found{"unturned_every", "expected no unturned_every without rotary positions"};
  if (!model.rotary && x.rotary_size > 0)
    return Found{"rotary_size", "expected no rotary_size without rotary positions"};
  if (!model.rotary && x.rope_stretch != plain.rope_stretch)
    return Found{"rope_stretch", "expected no rope_stretch without rotary positions"};
  if (x.local_rope_theta > 0 && (!model.rotary || x.window == 0))
    return Found{"local_rope_theta",
                 "expected a local_rope_theta with rotary positions and a window only"};
  if (x.rotary_size % 2 != 0 || x.rotary_size > model.head_size)
    return Found{"rotary_size", fmt::format("expected an even size of up to {}, the head's, got {}",
                                            model.head_size, x.rotary_size)};
  if (x.unused_positions > 0 && !model.learned)
    return Found{"unused_positions", "expected no unused_positions without learned positions"};
  if (x.segments > 0 && !model.learned)
    return Found{"segments", "expected no segments without learned positions"};
  if (x.segments > 0 && model.encoder)
    return Found{"segments", "expected no segments with encoder_layers"};
  if (!model.gated && x.activation_limit > 0)
    return Found{kLimit, "expected no activation_limit without gated_mlp"};
  if (!model.gated && x.up_offset > 0)
    return Found{"up_offset", "expected no up_offset without gated_mlp"};
  if (auto problem = branch_contradiction(x, model)) return problem;
  if (x.bidirectional && model.alibi)
    return Found{"bidirectional",
                 "expected no bidirectional with position \"alibi\", which looks back only"};
  if (auto problem = relative_contradiction(x, model)) return problem;
  if (!model.latent) return std::nullopt;
  if (model.alibi) return Found{"position", "expected no position \"alibi\" with kv_lora_rank"};
  for (const auto& [field, unusual] : {std::pair<std::string_view, bool>{"window", x.window > 0},
                                       {"attention_sinks", x.attention_sinks},
                                       {"attention_gate", x.attention_gate},
                                       {"bidirectional", x.bidirectional},
                                       {"attention_cap", x.attention_cap > 0},
                                       {"attention_divisor", x.attention_divisor > 0},
                                       {"rotary_size", x.rotary_size > 0},
                                       {"unturned_every", x.unturned_every > 0},
                                       {"rope_stretch", x.rope_stretch != plain.rope_stretch}})
    if (unusual) return Found{field, fmt::format("expected no {} with kv_lora_rank", field)};
  return std::nullopt;
}

}  // namespace zplan
