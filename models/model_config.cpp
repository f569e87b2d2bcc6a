#include "models/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "models/embedded_models.h"
#include "models/model_formulas.h"
#include "models/model_spelling.h"
#include "models/size_ladder.h"
#include "models/vision_config.h"
#include "planner/core/bundle.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// Limits far above any model, so that every count below stays inside int64 (see model_formulas.h).
struct Field {
  std::string_view name;
  std::int64_t ModelConfig::*member;
  std::int64_t max;
};
constexpr Field kFields[] = {
    {"layers", &ModelConfig::layers, kMostLayers},
    {"hidden", &ModelConfig::hidden, 1 << 20},
    {"heads", &ModelConfig::heads, 1 << 16},
    {"ffn", &ModelConfig::ffn, 1 << 23},
    {"vocab", &ModelConfig::vocab, 1 << 24},
    {"sequence", &ModelConfig::sequence, 1 << 24},
    {"global_batch", &ModelConfig::global_batch, 1 << 20},
};

// What a file may leave out, and where that is from then.
constexpr std::int64_t kUsualBatch = 512;  // [Radford19]
constexpr std::string_view kBatchSource = "not in the file: the batch of GPT-2 [Radford19]";
constexpr std::int64_t kUsualTheta = 10'000;  // [Su21]
constexpr std::string_view kThetaSource = "not in the file: the usual base [Su21]";
constexpr std::string_view kFfnSource = "not in the file: 4 times hidden, as GPT-2 [Radford19]";
constexpr std::string_view kTiedSource = "not in the file: as {} [{}]";
constexpr std::string_view kTrainedPositions = "trained_positions";
constexpr std::int64_t kMostTrainedPositions = std::int64_t{1} << 40;
constexpr std::string_view kModelSource = "stated in the file";
constexpr Field kKvHeads{"kv_heads", &ModelConfig::kv_heads, 1 << 16};
constexpr Field kEncoderLayers{"encoder_layers", &ModelConfig::encoder_layers, kMostLayers};
constexpr Field kMtpLayers{"mtp_layers", &ModelConfig::mtp_layers, 16};
constexpr std::string_view kMtpLoss = "mtp_loss";
constexpr double kLeastMtpLoss = 1e-6, kMostMtpLoss = 10;
constexpr Field kHeadSize{"head_size", &ModelConfig::own_head_size, 1 << 16};
constexpr std::int64_t kMaxAttentionWidth = 1 << 20;
// Of latent attention; those with the key-value rank a file has all or none of.
struct LatentField {
  std::string_view name;
  std::int64_t LatentShape::*member;
  std::int64_t max;
};
constexpr LatentField kQueryRank{"q_lora_rank", &LatentShape::query_rank, 1 << 20};
constexpr LatentField kLatentFields[] = {
    {"kv_lora_rank", &LatentShape::key_value_rank, 1 << 20},
    {"qk_nope_head_size", &LatentShape::nope_size, 1 << 16},
    {"qk_rope_head_size", &LatentShape::rope_size, 1 << 16},
    {"v_head_size", &LatentShape::value_size, 1 << 16},
};
// An indexer has all of them or none.
struct IndexField {
  std::string_view name;
  std::int64_t IndexShape::*member;
  std::int64_t max;
};
constexpr IndexField kIndexFields[] = {
    {"index_heads", &IndexShape::heads, 1 << 12},
    {"index_head_size", &IndexShape::head_size, 1 << 12},
    {"index_keys", &IndexShape::keys, 1 << 20},
};
constexpr Field kRopeTheta{"rope_theta", &ModelConfig::rope_theta, 1'000'000'000'000};
constexpr std::int64_t kMaxParameters = 1'000'000'000'000'000;

// Of a mixture of experts; what a file leaves out is 0 or off.
struct ExpertField {
  std::string_view name;
  std::int64_t ExpertShape::*member;
  std::int64_t max;
};
constexpr ExpertField kExpertCount{"experts", &ExpertShape::count, 1 << 12};
constexpr ExpertField kPerToken{"experts_per_token", &ExpertShape::per_token, 1 << 8};
constexpr ExpertField kDenseLayers{"dense_layers", &ExpertShape::dense_layers, kMostLayers};
constexpr ExpertField kExpertEvery{"expert_every", &ExpertShape::every, 64};
constexpr ExpertField kExpertFfn{"expert_ffn", &ExpertShape::ffn, 1 << 23};
constexpr ExpertField kSharedFfn{"shared_expert_ffn", &ExpertShape::shared_ffn, 1 << 23};
constexpr ExpertField kGroups{"router_groups", &ExpertShape::groups, 1 << 12};
constexpr ExpertField kGroupsPerToken{"router_groups_per_token", &ExpertShape::groups_per_token,
                                      1 << 12};
constexpr ExpertField kExpertLatent{"expert_latent_size", &ExpertShape::latent, 1 << 20};
constexpr std::string_view kSharedGate = "shared_expert_gate";
struct ExpertSwitch {
  std::string_view name;
  bool ExpertShape::*member;
};
constexpr ExpertSwitch kExpertSwitches[] = {
    {"router_renormalises", &ExpertShape::renormalised},
    {"router_bias", &ExpertShape::selection_bias},
};
struct ExpertFactor {
  std::string_view name;
  double ExpertShape::*member;
};
constexpr ExpertFactor kExpertFactors[] = {
    {"router_scale", &ExpertShape::scale},
    {"balance_loss", &ExpertShape::balance},
    {"router_bias_rate", &ExpertShape::bias_rate},
};

// A mixer of a pattern has these; a file with its letter states those without a usual value.
template <typename ShapeOf>
struct MixerField {
  std::string_view name;
  std::int64_t ShapeOf::*member;
  std::int64_t max;
};
constexpr std::string_view kPattern = "layer_pattern";
constexpr std::int64_t kMostConv = 8, kMostChunk = 1 << 12;
constexpr MixerField<MambaShape> kMambaFields[] = {
    {"mamba_heads", &MambaShape::heads, 1 << 16},
    {"mamba_head_size", &MambaShape::head_size, 1 << 12},
    {"mamba_groups", &MambaShape::groups, 1 << 12},
    {"mamba_state", &MambaShape::state, 1 << 12},
    {"mamba_conv", &MambaShape::conv, kMostConv},
    {"mamba_chunk", &MambaShape::chunk, kMostChunk},
};
constexpr MixerField<DeltaShape> kDeltaFields[] = {
    {"delta_key_heads", &DeltaShape::key_heads, 1 << 16},
    {"delta_value_heads", &DeltaShape::value_heads, 1 << 16},
    {"delta_key_size", &DeltaShape::key_size, 512},
    {"delta_value_size", &DeltaShape::value_size, 512},
    {"delta_conv", &DeltaShape::conv, kMostConv},
    {"delta_chunk", &DeltaShape::chunk, kMostChunk},
};
constexpr MixerField<KimiShape> kKimiFields[] = {
    {"kda_heads", &KimiShape::heads, 1 << 16},
    {"kda_head_size", &KimiShape::size, 512},
    {"kda_conv", &KimiShape::conv, kMostConv},
    {"kda_chunk", &KimiShape::chunk, kMostChunk},
};
constexpr MixerField<SelectiveShape> kSelectiveFields[] = {
    {"mamba1_inner", &SelectiveShape::inner, 1 << 20},
    {"mamba1_state", &SelectiveShape::state, 512},
    {"mamba1_step_rank", &SelectiveShape::rank, 1 << 16},
    {"mamba1_conv", &SelectiveShape::conv, kMostConv},
};
constexpr MixerField<ShortShape> kShortFields[] = {
    {"short_conv_width", &ShortShape::width, 1 << 20},
    {"short_conv_taps", &ShortShape::conv, kMostConv},
};
constexpr std::string_view kMambaNorm = "mamba_norm";
constexpr double kLeastPartFactor = 1e-6, kMostPartFactor = 1000;
constexpr std::int64_t kMostMixerWidth = 1 << 21;
constexpr std::string_view kRouterScores = "router_scores";
constexpr double kMaxExpertFactor = 1000;

struct Contradiction {
  std::string_view field;  // where the text form says it
  std::string message;
};

// Beside a latent.
std::optional<Contradiction> latent_contradiction(const ModelConfig& m) {
  if (m.kv_heads != m.heads)
    return Contradiction{"heads", fmt::format("expected as many kv_heads as heads with a latent, "
                                              "got {} kv_heads and {} heads",
                                              m.kv_heads, m.heads)};
  if (m.latent->rope_size % 2 != 0)
    return Contradiction{"qk_rope_head_size",
                         fmt::format("expected an even size, which rotary positions pair up, got "
                                     "{}",
                                     m.latent->rope_size)};
  if (m.biases != Biases::kNone)
    return Contradiction{"kv_lora_rank", "expected biases \"none\" with a latent"};
  if (m.qk_norm)
    return Contradiction{"qk_norm",
                         "expected no qk_norm with a latent, which has norms of its own"};
  return std::nullopt;
}

// This checks an indexer beside a latent.
std::optional<Contradiction> index_contradiction(const ModelConfig& m) {
  if (!m.index) return std::nullopt;
  const std::string_view heads = kIndexFields[0].name;
  if (!m.latent || m.latent->query_rank == 0)
    return Contradiction{heads, fmt::format("expected no {} without {}", heads, kQueryRank.name)};
  if (m.position == Position::kRope && m.latent->rope_size > m.index->head_size)
    return Contradiction{kIndexFields[1].name,
                         fmt::format("expected at least the {} elements that turn with positions, "
                                     "got {}",
                                     m.latent->rope_size, m.index->head_size)};
  return std::nullopt;
}

std::optional<Contradiction> head_contradiction(const ModelConfig& m) {
  if (auto problem = index_contradiction(m)) return problem;
  if (m.latent) {
    if (auto problem = latent_contradiction(m)) return problem;
  }
  if (!m.latent && m.own_head_size == 0 && m.hidden % m.heads != 0) {
    return Contradiction{"heads", fmt::format("expected heads to divide hidden, got {} heads and "
                                              "hidden {}",
                                              m.heads, m.hidden)};
  }
  if (std::max(m.attention_width(), m.heads * m.head_size()) > kMaxAttentionWidth) {
    return Contradiction{"heads", fmt::format("expected heads times head_size up to {}, got {}",
                                              kMaxAttentionWidth, m.attention_width())};
  }
  if (m.heads % m.kv_heads != 0) {
    return Contradiction{"kv_heads", fmt::format("expected kv_heads to divide heads, got {} "
                                                 "kv_heads and {} heads",
                                                 m.kv_heads, m.heads)};
  }
  if (m.position == Position::kRope && !m.latent && m.head_size() % 2 != 0) {
    return Contradiction{"heads", fmt::format("expected an even head size, which rotary positions "
                                              "pair up, got {}",
                                              m.head_size())};
  }
  const FeatureSurroundings surroundings{.rotary = m.position == Position::kRope,
                                         .learned = m.position == Position::kLearned,
                                         .alibi = m.position == Position::kAlibi,
                                         .latent = m.latent.has_value(),
                                         .output_biases = m.has_output_biases(),
                                         .gated = m.gated_mlp,
                                         .encoder = m.encoder_layers > 0,
                                         .qk_norm = m.qk_norm,
                                         .head_size = m.head_size()};
  if (auto problem = features_contradiction(m.layer, surroundings))
    return Contradiction{problem->field, problem->message};
  return std::nullopt;
}

std::optional<Contradiction> expert_contradiction(const ModelConfig& m) {
  if (!m.experts) return std::nullopt;
  const ExpertShape& e = *m.experts;
  if (e.per_token > e.count)
    return Contradiction{kPerToken.name,
                         fmt::format("expected at most {}, the experts that there are, got {}",
                                     e.count, e.per_token)};
  if (e.count % e.groups != 0)
    return Contradiction{
        kGroups.name,
        fmt::format("expected equal groups of the {} experts, got {}", e.count, e.groups)};
  if (e.groups_per_token > e.groups)
    return Contradiction{kGroupsPerToken.name,
                         fmt::format("expected at most {}, the groups that there are, got {}",
                                     e.groups, e.groups_per_token)};
  if (const std::int64_t there = e.count / e.groups * e.groups_per_token; e.per_token > there)
    return Contradiction{kPerToken.name,
                         fmt::format("expected at most the {} experts of {} groups, got {}", there,
                                     e.groups_per_token, e.per_token)};
  if (e.dense_layers >= m.layers)
    return Contradiction{kDenseLayers.name,
                         fmt::format("expected less than the {} layers, of which the others have "
                                     "experts, got {}",
                                     m.layers, e.dense_layers)};
  if (e.takes_turns() && e.dense_layers >= e.every)
    return Contradiction{kDenseLayers.name,
                         fmt::format("expected less than the {} layers of a turn, which one with "
                                     "experts is among, got {}",
                                     e.every, e.dense_layers)};
  if (m.layers % e.every != 0)
    return Contradiction{
        kExpertEvery.name,
        fmt::format("expected whole turns in the {} layers, got turns of {}", m.layers, e.every)};
  if (m.has_expert_biases() && e.shared_ffn > 0)
    return Contradiction{kSharedFfn.name,
                         "expected no shared_expert_ffn with biases \"all\": its last product has "
                         "none beside those of experts"};
  if (e.shared_gate && e.shared_ffn == 0)
    return Contradiction{kSharedGate, "expected no shared_expert_gate without shared_expert_ffn"};
  if (e.latent > m.hidden)
    return Contradiction{
        kExpertLatent.name,
        fmt::format("expected at most {}, the hidden size, got {}", m.hidden, e.latent)};
  if (m.has_expert_biases() && e.latent > 0)
    return Contradiction{kExpertLatent.name,
                         "expected no expert_latent_size with biases \"all\": the products before "
                         "and behind experts have none"};
  if (m.has_expert_biases() && e.selection_bias)
    return Contradiction{"router_bias",
                         "expected no router_bias, which only choices follow, with biases "
                         "\"all\", of which the router's logits have one"};
  if (e.bias_rate > 0 && !e.selection_bias)
    return Contradiction{"router_bias_rate", "expected no router_bias_rate without router_bias"};
  if (m.layer.bare_first_branch)
    return Contradiction{"bare_first_branch", "expected no bare_first_branch with experts"};
  if (m.layer.has_post_norms())
    return Contradiction{m.layer.post_norms ? "post_norms" : "only_post_norms",
                         fmt::format("expected no {} with experts: all ranks would have the norm "
                                     "behind experts that are on ranks of their own",
                                     m.layer.post_norms ? "post_norms" : "only_post_norms")};
  // In doubles, which no sizes overflow.
  const double elements = 3.0 * static_cast<double>(m.hidden) * static_cast<double>(m.layers) *
                          (static_cast<double>(e.count) * static_cast<double>(e.ffn) +
                           static_cast<double>(e.shared_ffn));
  if (elements > static_cast<double>(kMaxParameters))
    return Contradiction{kExpertCount.name,
                         fmt::format("expected at most 1e15 parameters, got {:.1e}", elements)};
  return std::nullopt;
}

// Of an encoder and what attends to it.
std::optional<Contradiction> encoder_contradiction(const ModelConfig& m) {
  if (m.encoder_layers == 0) return std::nullopt;
  if (m.encoder_layers >= m.layers)
    return Contradiction{kEncoderLayers.name,
                         fmt::format("expected less than the {} layers, of which the others are "
                                     "the decoder's, got {}",
                                     m.layers, m.encoder_layers)};
  if (m.kv_heads != m.heads)
    return Contradiction{"heads", fmt::format("expected as many kv_heads as heads with "
                                              "encoder_layers, got {} kv_heads and {} heads",
                                              m.kv_heads, m.heads)};
  if (m.position == Position::kAlibi)
    return Contradiction{"position",
                         "expected no position \"alibi\" with encoder_layers, which see both ways"};
  const LayerFeatures& layer = m.layer;
  const std::pair<std::string_view, bool> others[] = {
      {"kv_lora_rank", m.latent.has_value()},
      {kExpertCount.name, m.experts.has_value()},
      {"qk_norm", m.qk_norm},
      {"parallel_residual", layer.parallel_residual != ParallelResidual::kNone},
      {"post_norms", layer.post_norms},
      {"only_post_norms", layer.only_post_norms},
      {"unturned_every", layer.unturned_every > 0},
      {"residual_factor", layer.scales_branches()},
      {"bare_first_branch", layer.bare_first_branch},
      {"embedding_norm", layer.embedding_norm},
      {"bidirectional", layer.bidirectional},
      {"attention_sinks", layer.attention_sinks},
      {"attention_gate", layer.attention_gate},
      {"attention_cap", layer.attention_cap > 0},
      {"window", layer.window > 0}};
  for (const auto& [field, is_there] : others)
    if (is_there)
      return Contradiction{field, fmt::format("expected no {} with encoder_layers", field)};
  return std::nullopt;
}

// This checks modules that predict further tokens.
std::optional<Contradiction> mtp_contradiction(const ModelConfig& m) {
  if (m.mtp_layers == 0) {
    if (m.mtp_loss == kUsualMtpLoss) return std::nullopt;
    return Contradiction{kMtpLoss, "expected no mtp_loss without mtp_layers"};
  }
  const LayerFeatures& layer = m.layer;
  const std::pair<std::string_view, bool> others[] = {
      {kEncoderLayers.name, m.encoder_layers > 0},
      {kExpertEvery.name, m.experts && m.experts->takes_turns()},
      {"full_layers", layer.window_turn() > 1},
      {"unturned_every", layer.unturned_every > 0},
      {"embedding_norm", layer.embedding_norm},
      {"head_transform", layer.head_transform},
      {"head_bias", layer.head_bias},
      {"bare_first_branch", layer.bare_first_branch},
      {"scaled_logits", layer.scaled_logits},
      {"logit_divisor", layer.logit_divisor != kFactorUnit},
      {"bidirectional", layer.bidirectional}};
  for (const auto& [field, is_there] : others)
    if (is_there) return Contradiction{field, fmt::format("expected no {} with mtp_layers", field)};
  if (m.position == Position::kLearned)
    return Contradiction{
        kMtpLayers.name,
        "expected no mtp_layers with position \"learned\": no token has a position "
        "behind the last one"};
  return std::nullopt;
}

// This checks mixers of a pattern by themselves.
std::optional<Contradiction> mixer_contradiction(const ModelConfig& m) {
  if (m.mamba && m.mamba->heads % m.mamba->groups != 0)
    return Contradiction{"mamba_groups",
                         fmt::format("expected groups that divide the heads of Mamba-2, {}, got {}",
                                     m.mamba->heads, m.mamba->groups)};
  if (m.delta && m.delta->value_heads % m.delta->key_heads != 0)
    return Contradiction{"delta_key_heads",
                         fmt::format("expected a number that divides delta_value_heads, {}, got {}",
                                     m.delta->value_heads, m.delta->key_heads)};
  const std::int64_t width =
      std::max({m.mamba ? m.mamba->in_width() : 0, m.delta ? m.delta->in_width() : 0,
                m.kimi ? m.kimi->in_width() : 0, m.selective ? m.selective->in_width() : 0,
                m.short_convolution ? m.short_convolution->in_width() : 0});
  if (width > kMostMixerWidth)
    return Contradiction{kPattern, fmt::format("expected mixers whose first product has up to {} "
                                               "columns, got {}",
                                               kMostMixerWidth, width)};
  return std::nullopt;
}

// This checks factors of parts: each with the product that it multiplies, which has no bias.
std::optional<Contradiction> factor_contradiction(const ModelConfig& m) {
  const PartFactors& f = m.factors;
  if (f == PartFactors{}) return std::nullopt;
  PartFactors rest = f;
  if (m.mamba)
    rest.mamba_z = rest.mamba_x = rest.mamba_b = rest.mamba_c = rest.mamba_dt = rest.mamba_out =
        PartFactors::kOne;
  const bool bare = m.has_pattern() && m.biases == Biases::kNone;
  if (bare && !m.latent && m.attention_layers() > 0)
    rest.query = rest.key = rest.value = PartFactors::kOne;
  if (bare && m.gated_mlp && !m.experts) rest.gate = rest.up = PartFactors::kOne;
  for (const PartFactorField& field : kPartFactorFields)
    if (rest.*field.member != PartFactors::kOne)
      return Contradiction{field.name,
                           fmt::format("expected no {} without {}, biases \"none\" and what it "
                                       "multiplies: no latents, no experts",
                                       field.name, kPattern)};
  return std::nullopt;
}

// This checks a pattern of layers beside what else says which layers differ.
std::optional<Contradiction> pattern_contradiction(const ModelConfig& m) {
  if (!m.has_pattern()) return std::nullopt;
  const LayerFeatures& layer = m.layer;
  const std::pair<std::string_view, bool> others[] = {
      {kEncoderLayers.name, m.encoder_layers > 0},
      {kDenseLayers.name, m.experts && m.experts->dense_layers > 0},
      {kExpertEvery.name, m.experts && m.experts->takes_turns()},
      {"full_layers", layer.window_turn() > 1},
      {"unturned_every", layer.unturned_every > 0},
      {"parallel_residual", layer.parallel_residual != ParallelResidual::kNone},
      {"post_norms", layer.post_norms},
      {"only_post_norms", layer.only_post_norms},
      {"bare_first_branch", layer.bare_first_branch},
      {"residual_of_norm", layer.residual_of_norm},
      {"bidirectional", layer.bidirectional}};
  for (const auto& [field, is_there] : others)
    if (is_there)
      return Contradiction{field, fmt::format("expected no {} with {}", field, kPattern)};
  return mixer_contradiction(m);
}

// What is wrong with numbers that are each in range; nullopt: nothing.
std::optional<Contradiction> contradiction(const ModelConfig& model) {
  if (auto problem = head_contradiction(model)) return problem;
  if (auto problem = expert_contradiction(model)) return problem;
  if (auto problem = encoder_contradiction(model)) return problem;
  if (auto problem = mtp_contradiction(model)) return problem;
  if (auto problem = pattern_contradiction(model)) return problem;
  if (auto problem = factor_contradiction(model)) return problem;
  if (auto problem = vision_contradiction(model))
    return Contradiction{problem->field, problem->message};
  if (parameter_count(model) > kMaxParameters) {
    return Contradiction{
        "layers", fmt::format("expected at most 1e15 parameters, got {}", parameter_count(model))};
  }
  return std::nullopt;
}

// The value whose name an optional member has.
template <typename Enum, std::size_t kCount>
void read_choice(JsonObject& object, std::string_view member, const Enum (&all)[kCount],
                 Enum& value) {
  const auto node = object.optional_member(member);
  if (!node) return;
  std::vector<std::string> names;
  for (const Enum one : all) names.emplace_back(name(one));
  const std::string word = node->one_of(names);
  for (const Enum one : all)
    if (name(one) == word) value = one;
}

void read_features(JsonObject& object, ModelConfig& model) {
  Architecture architecture = Architecture::kGpt;
  read_choice(object, "architecture", {Architecture::kGpt, Architecture::kLlama}, architecture);
  set_architecture(model, architecture);
  read_choice(object, "position",
              {Position::kNone, Position::kLearned, Position::kRope, Position::kAlibi},
              model.position);
  read_choice(object, "norm",
              {Norm::kLayerNorm, Norm::kRmsNorm, Norm::kLayerNormNoBias, Norm::kLayerNormFixed},
              model.norm);
  read_choice(object, "biases", {Biases::kNone, Biases::kQkv, Biases::kAttention, Biases::kAll},
              model.biases);
  if (const auto gated = object.optional_member("gated_mlp")) model.gated_mlp = gated->boolean();
  if (const auto norms = object.optional_member("qk_norm")) model.qk_norm = norms->boolean();
  model.layer = read_layer_features(object);
}

void by_default(ModelConfig& model, std::string_view field, std::string source) {
  model.field_sources.emplace_back(field, std::move(source));
}

// The sizes that every model has, of which some have a usual value.
void read_sizes(JsonObject& object, ModelConfig& model) {
  const bool is_gpt = model.architecture == Architecture::kGpt;
  for (const Field& field : kFields) {
    if (const auto node = object.optional_member(field.name)) {
      model.*field.member = node->integer(1, field.max);
    } else if (field.member == &ModelConfig::global_batch) {
      model.global_batch = kUsualBatch;
      by_default(model, field.name, std::string(kBatchSource));
    } else if (field.member == &ModelConfig::ffn && is_gpt) {
      model.ffn = 4 * model.hidden;
      by_default(model, field.name, std::string(kFfnSource));
    } else {
      model.*field.member = object.member(field.name).integer(1, field.max);
    }
  }
  if (const auto tied = object.optional_member("tied_embeddings")) {
    model.tied_embeddings = tied->boolean();
    return;
  }
  model.tied_embeddings = is_gpt;
  by_default(
      model, "tied_embeddings",
      fmt::format(kTiedSource, is_gpt ? "GPT-2" : "LLaMA", is_gpt ? "Radford19" : "Touvron23"));
}

// What is there with a key-value rank only.
void read_latent(JsonObject& object, ModelConfig& model) {
  const auto refuse = [&](std::string_view name) {
    if (const auto node = object.optional_member(name))
      node->fail_expected(fmt::format("no {} without {}", name, kLatentFields[0].name));
  };
  if (const auto rank = object.optional_member(kLatentFields[0].name)) {
    LatentShape& latent = model.latent.emplace();
    for (const LatentField& field : kLatentFields)
      latent.*field.member = object.member(field.name).integer(1, field.max);
    if (const auto query = object.optional_member(kQueryRank.name))
      latent.*kQueryRank.member = query->integer(1, kQueryRank.max);
    if (const auto size = object.optional_member(kHeadSize.name))
      size->fail_expected(
          "no head_size with kv_lora_rank: heads have qk_nope_head_size and "
          "qk_rope_head_size elements");
    return;
  }
  for (const LatentField& field : kLatentFields) refuse(field.name);
  refuse(kQueryRank.name);
}

// This reads an indexer, of which a file states all sizes.
void read_index(JsonObject& object, ModelConfig& model) {
  if (const auto heads = object.optional_member(kIndexFields[0].name)) {
    IndexShape& index = model.index.emplace();
    for (const IndexField& field : kIndexFields)
      index.*field.member = object.member(field.name).integer(1, field.max);
    return;
  }
  for (const IndexField& field : kIndexFields)
    if (const auto node = object.optional_member(field.name))
      node->fail_expected(fmt::format("no {} without {}", field.name, kIndexFields[0].name));
}

template <typename ShapeOf, std::size_t kCount>
void read_mixer(JsonObject& object, bool is_there, const MixerField<ShapeOf> (&fields)[kCount],
                char letter, std::optional<ShapeOf>& shape) {
  if (is_there) shape.emplace();
  for (const MixerField<ShapeOf>& field : fields) {
    const bool has_usual = ShapeOf{}.*field.member > 0;
    const auto node = is_there && !has_usual ? std::optional(object.member(field.name))
                                             : object.optional_member(field.name);
    if (node && !is_there)
      node->fail_expected(fmt::format("no {} without {} in {}", field.name, letter, kPattern));
    if (node) (*shape).*field.member = node->integer(1, field.max);
  }
}

// The pattern of layers, and what is there with some of its letters only.
void read_layers(JsonObject& object, ModelConfig& model) {
  const auto pattern = object.optional_member(kPattern);
  if (pattern && !pattern->has_faults()) model.pattern = read_pattern(*pattern, model.layers);
  read_mixer(object, model.mamba_layers() > 0, kMambaFields, 'M', model.mamba);
  if (const auto norm = object.optional_member(kMambaNorm)) {
    if (!model.mamba)
      norm->fail_expected(fmt::format("no {} without M in {}", kMambaNorm, kPattern));
    if (model.mamba) model.mamba->norm = norm->boolean();
  }
  for (const PartFactorField& field : kPartFactorFields)
    if (const auto node = object.optional_member(field.name))
      model.factors.*field.member = std::llround(node->number(kLeastPartFactor, kMostPartFactor) *
                                                 static_cast<double>(PartFactors::kOne));
  read_mixer(object, model.layers_with(Mixer::kDelta) > 0, kDeltaFields, 'G', model.delta);
  read_mixer(object, model.layers_with(Mixer::kKimi) > 0, kKimiFields, 'K', model.kimi);
  read_mixer(object, model.layers_with(Mixer::kSelective) > 0, kSelectiveFields, 'S',
             model.selective);
  read_mixer(object, model.layers_with(Mixer::kShort) > 0, kShortFields, 'C',
             model.short_convolution);
  if (model.layers_with(FeedForward::kExperts) > 0) object.member(kExpertCount.name);
  if (const auto count = object.optional_member(kExpertCount.name);
      count && pattern && model.layers_with(FeedForward::kExperts) == 0)
    count->fail_expected(fmt::format("no {} without E in {}", kExpertCount.name, kPattern));
}

// What is there with experts only.
void read_experts(JsonObject& object, ModelConfig& model) {
  const auto count = object.optional_member(kExpertCount.name);
  const auto member = [&](std::string_view name) {
    auto node = object.optional_member(name);
    if (node && !count)
      node->fail_expected(fmt::format("no {} without {}", name, kExpertCount.name));
    return node;
  };
  ExpertShape shape;
  for (const ExpertField& field : {kPerToken, kDenseLayers, kExpertEvery, kExpertFfn, kSharedFfn,
                                   kExpertLatent, kGroups, kGroupsPerToken})
    if (const auto node = member(field.name)) shape.*field.member = node->integer(1, field.max);
  if (const auto node = member(kRouterScores))
    shape.scores =
        node->one_of({"softmax", "sigmoid"}) == "sigmoid" ? Scores::kSigmoid : Scores::kSoftmax;
  if (const auto node = member(kSharedGate)) shape.shared_gate = node->boolean();
  for (const ExpertSwitch& field : kExpertSwitches)
    if (const auto node = member(field.name)) shape.*field.member = node->boolean();
  for (const ExpertFactor& field : kExpertFactors)
    if (const auto node = member(field.name))
      shape.*field.member = node->number(0, kMaxExpertFactor);
  if (!count) return;
  shape.count = count->integer(1, kExpertCount.max);
  object.member(kPerToken.name);
  if (shape.groups > 1) object.member(kGroupsPerToken.name);
  if (shape.dense_layers > 0 || shape.takes_turns() ||
      (model.has_pattern() && model.layers_with(FeedForward::kMlp) > 0)) {
    object.member(kExpertFfn.name);
  } else if (const auto node = object.optional_member(kExpertFfn.name)) {
    node->fail_expected(fmt::format("no expert_ffn without {} or {}: ffn is the width of experts",
                                    kDenseLayers.name, kExpertEvery.name));
  } else {
    shape.ffn = model.ffn;
  }
  model.experts = shape;
}

// The sizes that not every model has to say.
void read_attention(JsonObject& object, ModelConfig& model) {
  const auto read = [&](const Field& field, const JsonNode& node) {
    model.*field.member = node.integer(1, field.max);
  };
  model.kv_heads = model.heads;
  read_latent(object, model);
  read_index(object, model);
  if (model.architecture == Architecture::kLlama && !model.latent) {
    read(kKvHeads, object.member(kKvHeads.name));
  } else if (const auto node = object.optional_member(kKvHeads.name)) {
    read(kKvHeads, *node);
  }
  if (const auto node = object.optional_member(kHeadSize.name)) read(kHeadSize, *node);
  if (const auto node = object.optional_member(kEncoderLayers.name)) read(kEncoderLayers, *node);
  if (const auto node = object.optional_member(kMtpLayers.name)) read(kMtpLayers, *node);
  if (const auto node = object.optional_member(kMtpLoss))
    model.mtp_loss = node->number(kLeastMtpLoss, kMostMtpLoss);
  if (model.position == Position::kRope) {
    const auto theta = object.optional_member(kRopeTheta.name);
    if (theta) read(kRopeTheta, *theta);
    if (!theta) model.rope_theta = kUsualTheta;
    if (!theta) by_default(model, kRopeTheta.name, std::string(kThetaSource));
  } else if (const auto node = object.optional_member(kRopeTheta.name)) {
    node->fail_expected("no rope_theta without rotary positions");
  }
}

// "sources": {"vocab": "..."} names the source of single fields.
void read_sources(const JsonNode& node, ModelConfig& model) {
  JsonObject object = node.object();
  const auto read = [&](std::string_view field) {
    const auto source = object.optional_member(field);
    if (source) model.field_sources.emplace_back(field, source->non_empty_string());
  };
  for (const ModelField& field : fields_of(model)) {
    if (object.optional_member(field.name))  // instead of the default's
      std::erase_if(model.field_sources, [&](const auto& own) { return own.first == field.name; });
    read(field.name);
  }
  read(kTrainedPositions);
  object.finish();
}

bool answers_to(const ModelConfig& model, std::string_view name) {
  const std::string wanted = to_lower(name);
  const auto same = [&](const std::string& own) { return to_lower(own) == wanted; };
  return same(model.name) || std::ranges::any_of(model.aliases, same) ||
         std::ranges::any_of(model.sizes, same);
}

// How people name the model beside its aliases, and what its weights were trained on.
void read_names(JsonObject& object, ModelConfig& model) {
  if (const auto sizes = object.optional_member("sizes")) model.sizes = sizes->words();
  if (const auto variants = object.optional_member("variants")) {
    for (const JsonNode& node : variants->items()) {
      JsonObject in = node.object();
      model.variants.push_back({in.member("names").words(),
                                in.member(kTrainedPositions).integer(1, kMostTrainedPositions),
                                in.member("source").non_empty_string()});
      in.finish();
    }
  }
  if (const auto positions = object.optional_member(kTrainedPositions))
    model.trained_positions = positions->integer(1, kMostTrainedPositions);
}

[[noreturn]] void fail_unknown(std::string_view name) {
  throw_bad_input(fmt::format(
      "unknown model {}{} (known: what zplan models lists; a size such as 13B; or a path to a "
      ".json file)",
      in_quotes(name), nearest_model_name(name)));
}

}  // namespace

std::string_view name(Architecture architecture) {
  return architecture == Architecture::kLlama ? "llama" : "gpt";
}

std::string_view name(Position position) {
  constexpr std::string_view kNames[] = {"none", "learned", "rope", "alibi"};
  return kNames[static_cast<std::size_t>(position)];
}

std::string_view name(Norm norm) {
  constexpr std::string_view kNames[] = {"layernorm", "rmsnorm", "layernorm_no_bias",
                                         "layernorm_fixed"};
  return kNames[static_cast<std::size_t>(norm)];
}

std::string_view name(Biases biases) {
  constexpr std::string_view kNames[] = {"none", "qkv", "attention", "all"};
  return kNames[static_cast<std::size_t>(biases)];
}

std::string_view name(Scores scores) { return scores == Scores::kSigmoid ? "sigmoid" : "softmax"; }

void set_architecture(ModelConfig& model, Architecture architecture) {
  const bool llama = architecture == Architecture::kLlama;
  model.architecture = architecture;
  model.position = llama ? Position::kRope : Position::kLearned;
  model.norm = llama ? Norm::kRmsNorm : Norm::kLayerNorm;
  model.biases = llama ? Biases::kNone : Biases::kAll;
  model.gated_mlp = llama;
}

ModelConfig plain_layers_of(ModelConfig model) {
  model.experts.reset();
  if (model.encoder_layers > 0) model.layer.bidirectional = true;
  model.encoder_layers = 0;
  return model;
}

ModelConfig layer_of_pattern(ModelConfig model, std::int64_t layer) {
  const LayerParts parts = model.parts_of(layer);
  if (parts.feed_forward != FeedForward::kExperts) model.experts.reset();
  model.pattern.assign(static_cast<std::size_t>(model.layers), parts);
  return model;
}

LayerParts ModelConfig::parts_of(std::int64_t layer) const {
  if (has_pattern() && layer < layers) return pattern[static_cast<std::size_t>(layer)];
  if (has_pattern())
    return {Mixer::kAttention, experts ? FeedForward::kExperts : FeedForward::kMlp};
  const bool has_experts = experts && experts->is_in(layer);
  return {Mixer::kAttention, has_experts ? FeedForward::kExperts : FeedForward::kMlp};
}

std::int64_t ModelConfig::layers_with(Mixer mixer) const {
  return std::ranges::count(pattern, mixer, &LayerParts::mixer);
}

std::int64_t ModelConfig::attention_layers() const {
  return layers_with(Mixer::kAttention) + layers_with(Mixer::kBoth);
}

std::int64_t ModelConfig::mamba_layers() const {
  return layers_with(Mixer::kMamba) + layers_with(Mixer::kBoth);
}

std::int64_t ModelConfig::layers_with(FeedForward feed_forward) const {
  return std::ranges::count(pattern, feed_forward, &LayerParts::feed_forward);
}

std::int64_t ModelConfig::state_heads_divisor() const {
  std::int64_t divisor = 0;
  if (mamba) divisor = std::gcd(mamba->heads, mamba->groups);
  if (delta) divisor = std::gcd(divisor, std::gcd(delta->key_heads, delta->value_heads));
  if (kimi) divisor = std::gcd(divisor, kimi->heads);
  if (selective) divisor = std::gcd(divisor, selective->inner);
  if (short_convolution) divisor = std::gcd(divisor, short_convolution->width);
  return divisor;
}

namespace {

template <typename ShapeOf, std::size_t kCount>
void add_mixer_fields(const std::optional<ShapeOf>& shape,
                      const MixerField<ShapeOf> (&fields)[kCount], std::vector<ModelField>& all) {
  if (!shape) return;
  for (const MixerField<ShapeOf>& field : fields)
    all.push_back({field.name, (*shape).*field.member});
}

// `has_mlp`: layers of a pattern do.
void add_expert_fields(const ExpertShape& shape, bool has_mlp, std::vector<ModelField>& all) {
  for (const ExpertField& field : {kExpertCount, kPerToken})
    all.push_back({field.name, shape.*field.member});
  if (shape.dense_layers > 0) all.push_back({kDenseLayers.name, shape.dense_layers});
  if (shape.takes_turns()) all.push_back({kExpertEvery.name, shape.every});
  if (shape.dense_layers > 0 || shape.takes_turns() || has_mlp)
    all.push_back({kExpertFfn.name, shape.ffn});
  if (shape.shared_ffn > 0) all.push_back({kSharedFfn.name, shape.shared_ffn});
  if (shape.shared_gate) all.push_back({kSharedGate, true});
  if (shape.latent > 0) all.push_back({kExpertLatent.name, shape.latent});
  if (shape.groups > 1)
    for (const ExpertField& field : {kGroups, kGroupsPerToken})
      all.push_back({field.name, shape.*field.member});
  all.push_back({kRouterScores, name(shape.scores)});
  for (const ExpertSwitch& field : kExpertSwitches)
    all.push_back({field.name, shape.*field.member});
  for (const ExpertFactor& field : kExpertFactors) all.push_back({field.name, shape.*field.member});
}

}  // namespace

std::vector<ModelField> fields_of(const ModelConfig& model) {
  std::vector<ModelField> all{{"layers", model.layers},
                              {"hidden", model.hidden},
                              {"heads", model.heads},
                              {"kv_heads", model.kv_heads},
                              {"head_size", model.head_size()},
                              {"ffn", model.ffn},
                              {"vocab", model.vocab},
                              {"sequence", model.sequence},
                              {"global_batch", model.global_batch},
                              {"tied_embeddings", model.tied_embeddings},
                              {"position", name(model.position)},
                              {"norm", name(model.norm)},
                              {"gated_mlp", model.gated_mlp},
                              {"biases", name(model.biases)},
                              {"qk_norm", model.qk_norm}};
  if (model.encoder_layers > 0) all.push_back({kEncoderLayers.name, model.encoder_layers});
  if (model.mtp_layers > 0) {
    all.push_back({kMtpLayers.name, model.mtp_layers});
    all.push_back({kMtpLoss, model.mtp_loss});
  }
  if (model.position == Position::kRope) all.push_back({"rope_theta", model.rope_theta});
  if (model.has_pattern()) all.push_back({kPattern, pattern_words(model.pattern)});
  add_mixer_fields(model.mamba, kMambaFields, all);
  if (model.mamba && !model.mamba->norm) all.push_back({kMambaNorm, false});
  for (const PartFactorField& field : kPartFactorFields)
    if (const std::int64_t factor = model.factors.*field.member; factor != PartFactors::kOne)
      all.push_back(
          {field.name, static_cast<double>(factor) / static_cast<double>(PartFactors::kOne)});
  add_mixer_fields(model.delta, kDeltaFields, all);
  add_mixer_fields(model.kimi, kKimiFields, all);
  add_mixer_fields(model.selective, kSelectiveFields, all);
  add_mixer_fields(model.short_convolution, kShortFields, all);
  if (model.experts) add_expert_fields(*model.experts, model.has_pattern() && model.has_mlp(), all);
  for (const auto& [field, value] : shown_features(model.layer)) all.push_back({field, value});
  add_vision_fields(model, all);
  if (!model.latent) return all;
  if (model.latent->query_rank > 0) all.push_back({kQueryRank.name, model.latent->query_rank});
  for (const LatentField& field : kLatentFields)
    all.push_back({field.name, *model.latent.*field.member});
  if (model.index)
    for (const IndexField& field : kIndexFields)
      all.push_back({field.name, *model.index.*field.member});
  return all;
}

// With the latents, what comes of them and the heads' inputs side by side w, the four matrices
// before and after the heads have at most h w, q a d and c a (n + v), which is below w^2 / 4 + w^2,
// and h w.
std::int64_t ModelConfig::attention_bound() const {
  std::int64_t bound = attention_width() * (layer.attention_gate ? 2 : 1);
  if (latent) bound = latent->query_rank + latent->key_value_rank + latent->rope_size + qkv_width();
  if (index) bound += (index->heads + 1) * index->head_size + index->heads;
  if (mamba)
    bound = std::max(bound, mamba->in_width() + 2 * mamba->inner() * mamba->state / mamba->chunk);
  if (delta)
    bound =
        std::max(bound, delta->in_width() + 2 * delta->values() * delta->key_size / delta->chunk);
  // Decays and gates are as wide as the columns of queries each, the latter's inputs not.
  if (kimi)
    bound = std::max(bound, kimi->in_width() + 2 * (kimi->width() + kimi->size) +
                                2 * kimi->width() * kimi->size / kimi->chunk);
  if (short_convolution) bound = std::max(bound, short_convolution->in_width());
  // Columns, steps and what the latter come of; their decays count with the matrices.
  if (selective)
    bound =
        std::max(bound, selective->in_width() + 2 * selective->inner + 3 * selective->low_width());
  return bound;
}

std::int64_t ModelConfig::uncut_elements() const {
  std::int64_t columns = 0;
  if (latent) columns += latent->query_rank + latent->key_value_rank + latent->rope_size;
  if (index) columns += index->head_size + index->heads;
  if (kimi) columns += kimi->low_width();
  if (experts) columns += 2 * experts->latent + (experts->shared_gate ? 1 : 0);
  const std::int64_t queries = index ? latent->query_rank * index->heads * index->head_size : 0;
  return hidden * columns + queries;
}

std::int64_t ModelConfig::width_divisor() const {
  if (vision)
    return std::gcd(text_alone(*this).width_divisor(), tower_layers_of(*this).width_divisor());
  const std::int64_t values = kv_heads * value_size();
  if (has_states()) {
    std::int64_t divisor = std::gcd(kv_heads * head_size(), ffn);
    if (latent)
      divisor = std::gcd(divisor, std::gcd(heads * (latent->nope_size + value_size()), values));
    if (mamba)
      for (const std::int64_t width : mamba->in_widths()) divisor = std::gcd(divisor, width);
    if (delta)
      for (const std::int64_t width : delta->in_widths()) divisor = std::gcd(divisor, width);
    if (kimi)
      for (const std::int64_t width : kimi->in_widths()) divisor = std::gcd(divisor, width);
    if (selective) divisor = std::gcd(divisor, selective->inner);
    if (short_convolution) divisor = std::gcd(divisor, short_convolution->width);
    return divisor;
  }
  if (latent)
    return std::gcd(std::gcd(heads * head_size(), heads * (latent->nope_size + value_size())),
                    std::gcd(values, ffn));
  return std::gcd(kv_heads * head_size(), ffn);
}

std::int64_t ModelConfig::matrix_divisor() const {
  if (vision)
    return std::gcd(text_alone(*this).matrix_divisor(), tower_layers_of(*this).matrix_divisor());
  std::int64_t last = std::gcd(attention_width() * hidden, ffn * hidden);
  if (mamba) last = std::gcd(last, std::gcd(mamba->in_width(), mamba->inner()) * hidden);
  if (delta) last = std::gcd(last, std::gcd(delta->in_width(), delta->values()) * hidden);
  if (kimi)
    last = std::gcd(last, std::gcd(std::gcd(kimi->in_width(), kimi->width()) * hidden,
                                   kimi->size * kimi->width()));
  if (selective)
    last = std::gcd(
        last, selective->inner * std::gcd(std::gcd(hidden, selective->state), selective->rank));
  if (short_convolution) last = std::gcd(last, short_convolution->width * hidden);
  if (!latent) return std::gcd(last, qkv_width() * hidden);
  const std::int64_t query_in = latent->query_rank > 0 ? latent->query_rank : hidden;
  const std::int64_t keys = heads * (latent->nope_size + value_size());
  return std::gcd(last, std::gcd(query_in * heads * head_size(), latent->key_value_rank * keys));
}

const std::string& ModelConfig::source_of(std::string_view field) const {
  for (const auto& [name, own] : field_sources) {
    if (name == field) return own;
  }
  return source;
}

ModelConfig parse_model(std::string text, std::string file_name) {
  const JsonNode root = parse_json(std::move(text), std::move(file_name));
  const std::optional<JsonNode> bundled = bundle_part(root, "model");
  JsonObject object = (bundled ? *bundled : gathering_faults(root)).object();
  object.schema("zplan.model/1");
  ModelConfig model;
  model.name = object.member("name").non_empty_string();
  if (const auto aliases = object.optional_member("aliases")) {
    for (const JsonNode& alias : aliases->items()) {
      model.aliases.push_back(alias.non_empty_string());
    }
  }
  read_names(object, model);
  read_features(object, model);
  read_sizes(object, model);
  read_attention(object, model);
  read_layers(object, model);
  read_experts(object, model);
  model.vision = read_vision(object);
  const auto source = object.optional_member("source");
  model.source = source ? source->non_empty_string() : kModelSource;
  if (const auto sources = object.optional_member("sources")) read_sources(*sources, model);
  object.finish();
  if (const auto problem = contradiction(model)) {
    object.member(problem->field).fail(problem->message);
  }
  return model;
}

void validate(const ModelConfig& model) {
  const auto check = [&](const Field& field) {
    const std::int64_t value = model.*field.member;
    if (value < 1 || value > field.max) {
      throw_bad_input(fmt::format("model \"{}\": {}: expected an integer from 1 to {}, got {}",
                                  model.name, field.name, field.max, value));
    }
  };
  for (const Field& field : kFields) check(field);
  check(kKvHeads);
  if (model.own_head_size != 0) check(kHeadSize);
  if (model.encoder_layers != 0) check(kEncoderLayers);
  if (model.mtp_layers != 0) check(kMtpLayers);
  if (model.position == Position::kRope) check(kRopeTheta);
  if (const auto problem = contradiction(model)) {
    throw_bad_input(fmt::format("model \"{}\": {}", model.name, problem->message));
  }
}

std::vector<ModelConfig> model_catalogue() {
  std::vector<ModelConfig> models;
  for (const EmbeddedFile& file : embedded_models()) {
    models.push_back(parse_model(std::string(file.text), std::string(file.name)));
  }
  std::stable_sort(models.begin(), models.end(), [](const ModelConfig& a, const ModelConfig& b) {
    return parameter_count(a) < parameter_count(b);
  });
  return models;
}

std::optional<ModelConfig> catalogue_model(std::string_view name) {
  for (ModelConfig& model : model_catalogue()) {
    if (!answers_to(model, name)) continue;
    take_variant(model, name);
    return std::move(model);
  }
  return std::nullopt;
}

ModelConfig load_model(std::string_view name_or_path) {
  if (looks_like_path(name_or_path)) {
    const std::string path(name_or_path);
    return parse_model(read_text_file(path), path);
  }
  if (auto model = catalogue_model(name_or_path)) return *std::move(model);
  if (const auto size = parse_model_size(name_or_path)) return model_of_size(*size, name_or_path);
  if (auto spelled = spelled_model(name_or_path)) return std::move(spelled->model);
  fail_unknown(name_or_path);
}

}  // namespace zplan
