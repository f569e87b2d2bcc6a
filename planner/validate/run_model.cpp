#include "planner/validate/run_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "planner/core/text.h"

namespace zplan {
namespace {

// Of head sizes that are even and cut the width into heads that split over tp the nearest to 128,
// as ratios go; where there is none, a head per rank.
std::int64_t nearest_heads(const RunRecord& run) {
  constexpr std::int64_t kUsual = 128, kLeast = 32, kMost = 512;
  const std::int64_t hidden = run.model.hidden, tp = run.parallel.tp;
  std::int64_t best = 0;
  const auto ratio = [=](std::int64_t size) {
    return static_cast<double>(std::max(size, kUsual)) /
           static_cast<double>(std::min(size, kUsual));
  };
  for (std::int64_t size = kLeast; size <= kMost; size += 2) {
    const bool cuts = hidden % size == 0 && hidden / size % tp == 0;
    if (cuts && (best == 0 || ratio(size) < ratio(best))) best = size;
  }
  return best == 0 ? tp : hidden / best;
}

constexpr std::string_view kLearned = "learned", kRope = "rope", kAlibi = "alibi", kNone = "none";

// Linear layers have biases as stated, else all of them have, but none with RMSNorm or in MPT.
Biases biases_of(const RunModel& m) {
  if (m.biases)
    return *m.biases == "none" ? Biases::kNone : *m.biases == "qkv" ? Biases::kQkv : Biases::kAll;
  return m.norm == "rmsnorm" || m.family == "mpt" ? Biases::kNone : Biases::kAll;
}

// As stated, else as the gated MLP of Llama or the plain one of GPT goes with.
std::string_view position_of(const RunModel& m) {
  if (m.position) return *m.position;
  return m.gated_ffn ? kRope : kLearned;
}

// The usual function of an MLP has no word of its own.
Activation activation_of(const RunModel& m) {
  const std::string_view usual = m.gated_ffn ? "silu" : "gelu_tanh";
  if (!m.activation || *m.activation == usual) return Activation::kUsual;
  if (m.activation->ends_with("swiglu")) return Activation::kUsual;
  if (*m.activation == "geglu") return Activation::kGelu;
  if (*m.activation == "gelu") return Activation::kGelu;
  if (*m.activation == "gelu_tanh") return Activation::kGeluTanh;
  if (*m.activation == "quick_gelu") return Activation::kQuickGelu;
  if (*m.activation == "squared_relu") return Activation::kSquaredRelu;
  return *m.activation == "silu" ? Activation::kSilu : Activation::kRelu;
}

ParallelResidual residual_of(const RunModel& m) {
  if (m.parallel_residual == "two_norms") return ParallelResidual::kTwoNorms;
  return m.parallel_residual == "one_norm" ? ParallelResidual::kOneNorm : ParallelResidual::kNone;
}

void add_features(const RunModel& m, ModelConfig& model) {
  LayerFeatures& layer = model.layer;
  model.qk_norm = m.qk_norm.value_or(false) && !model.latent;  // latents have norms of their own
  layer.activation = activation_of(m);
  constexpr std::int64_t kUnit = 1'000'000'000;
  if (m.activation == "clamped_swiglu") {  // [Agarwal25 sec 2.2]
    layer.activation_limit = 7 * kUnit;
    layer.up_offset = kUnit;
  }
  layer.parallel_residual = residual_of(m);
  layer.post_norms = m.post_norms.value_or(false);
  layer.embedding_norm = m.embedding_norm.value_or(false);
  layer.scaled_embedding = m.scaled_embedding.value_or(false);
  layer.attention_sinks = m.attention_sinks.value_or(false);
  layer.attention_cap = std::llround(m.attention_cap.value_or(0));
  layer.logit_cap = std::llround(m.logit_cap.value_or(0));
  layer.window = m.window.tokens.value_or(0);
  layer.window_layers = m.window.window_layers.value_or(layer.window_layers);
  layer.full_layers = m.window.full_layers.value_or(layer.full_layers);
  const double turned = m.rotary_fraction.value_or(1);
  if (turned < 1) layer.rotary_size = std::llround(turned * static_cast<double>(model.head_size()));
}

void add_latent(const RunLatent& m, ModelConfig& model) {
  if (!m.key_value_rank) return;
  model.latent = {.query_rank = m.query_rank.value_or(0),
                  .key_value_rank = *m.key_value_rank,
                  .nope_size = *m.nope_size,
                  .rope_size = *m.rope_size,
                  .value_size = *m.value_size};
  model.kv_heads = model.heads;
  model.own_head_size = 0;
  if (m.index_heads)
    model.index = {.heads = *m.index_heads, .head_size = *m.index_head_size, .keys = *m.index_keys};
}

// The first layers have an MLP, as many as are stated or else as the layers with experts leave.
std::int64_t dense_layers_of(const RunModel& m, std::vector<std::string>& flags) {
  const std::int64_t rest = m.layers - m.moe_layers.value_or(m.layers);
  if (m.routed.dense_layers || m.routed.every.value_or(1) > 1 || rest == 0)
    return m.routed.dense_layers.value_or(0);
  flags.push_back(fmt::format("the first {} layers taken as those without experts", rest));
  return rest;
}

// Returns what a layer has behind its mixer, where no pattern says it.
FeedForward behind_mixer(const RunModel& m, std::int64_t layer) {
  if (!m.experts) return FeedForward::kMlp;
  ExpertShape experts;
  experts.dense_layers = m.routed.dense_layers.value_or(0);
  experts.every = m.routed.every.value_or(1);
  return experts.is_in(layer) ? FeedForward::kExperts : FeedForward::kMlp;
}

void add_mixers(const RunModel& m, ModelConfig& model) {
  const RunMixers& mixers = m.mixers;
  model.layer.attention_gate = m.attention_gate.value_or(false);
  if (mixers.pattern) model.pattern = pattern_of(*mixers.pattern, m.layers);
  if (mixers.kind) {
    for (std::int64_t i = 0; i < m.layers; ++i) {
      const bool attends = mixers.every && (i + 1) % *mixers.every == 0;
      model.pattern.push_back({attends ? Mixer::kAttention : Mixer::kDelta, behind_mixer(m, i)});
    }
  }
  if (model.layers_with(Mixer::kMamba) > 0) {
    MambaShape& shape = model.mamba.emplace();
    shape.heads = *mixers.heads;
    shape.head_size = *mixers.head_dim;
    shape.groups = mixers.groups.value_or(shape.groups);
    shape.state = *mixers.state;
    shape.conv = mixers.conv.value_or(shape.conv);
    shape.chunk = mixers.chunk.value_or(shape.chunk);
  }
  if (model.layers_with(Mixer::kDelta) > 0) {
    DeltaShape& shape = model.delta.emplace();
    shape.key_heads = *mixers.key_heads;
    shape.key_size = *mixers.key_dim;
    shape.value_heads = *mixers.value_heads;
    shape.value_size = *mixers.value_dim;
    shape.conv = mixers.linear_conv.value_or(shape.conv);
  }
}

// Returns what of a run's mixers a model cannot express; nothing: it expresses all.
std::optional<std::string> inexpressible_mixers(const RunModel& m) {
  const RunMixers& mixers = m.mixers;
  if (mixers.pattern && mixers.kind) return "a hybrid pattern beside linear attention";
  if (mixers.pattern) {
    if (const std::string fault = pattern_fault(*mixers.pattern, m.layers); !fault.empty())
      return fmt::format("hybrid pattern {}: {}", in_quotes(*mixers.pattern), fault);
    const bool has_sizes = mixers.heads && mixers.head_dim && mixers.state;
    if (mixers.pattern->find('M') != std::string::npos && !has_sizes)
      return "Mamba layers of a size that is not stated";
    if (mixers.pattern->find('G') != std::string::npos)
      return "a pattern with G: linear_attention states gated delta nets";
    if (mixers.pattern->find_first_of("KSHC") != std::string::npos)
      return "a pattern with K, S, H or C: no key states the sizes of such mixers";
  }
  const bool has_sizes =
      mixers.key_heads && mixers.key_dim && mixers.value_heads && mixers.value_dim;
  if (mixers.kind && !has_sizes) return "linear attention of a size that is not stated";
  return std::nullopt;
}

void add_experts(const RunModel& m, ModelConfig& model, std::vector<std::string>& flags) {
  if (!m.experts) return;
  const RunExpertModel& routed = m.routed;
  ExpertShape& e = model.experts.emplace();
  e.count = *m.experts;
  e.per_token = *m.top_k;
  e.ffn = *m.expert_ffn;
  if (!model.has_pattern()) {
    e.dense_layers = dense_layers_of(m, flags);
    e.every = routed.every.value_or(e.every);
  }
  e.shared_ffn = m.shared_expert_ffn.value_or(0);
  if (routed.scores == "sigmoid") e.scores = Scores::kSigmoid;
  e.renormalised = routed.renormalised.value_or(e.renormalised);
  e.shared_gate = routed.shared_gate.value_or(false);
  e.latent = routed.latent.value_or(0);
  e.groups = routed.groups.value_or(e.groups);
  e.groups_per_token = routed.groups_per_token.value_or(e.groups);
  e.scale = routed.scale.value_or(e.scale);
  constexpr double kUsualBalance = 0.01;    // [Fedus21 sec 2.2]
  constexpr double kUsualBiasRate = 0.001;  // [DeepSeek25 sec 4.2]
  const auto& balancing = routed.load_balancing;
  const bool has_loss = balancing ? balancing->ends_with("aux_loss") : routed.balance > 0.0;
  if (has_loss) e.balance = routed.balance.value_or(kUsualBalance);
  e.selection_bias = routed.selection_bias.value_or(balancing == "bias" || routed.bias_rate > 0.0);
  if (e.selection_bias)
    e.bias_rate = routed.bias_rate.value_or(balancing == "bias" ? kUsualBiasRate : 0);
  if (model.dense_layers() == 0) model.ffn = e.ffn;
}

}  // namespace

std::optional<std::string> inexpressible_model(const RunModel& m) {
  if (m.experts && !(m.top_k && m.expert_ffn)) return "experts of a width that is not stated";
  if (auto why = inexpressible_mixers(m)) return why;
  const std::string_view position = position_of(m);
  if (position != kLearned && position != kRope && position != kAlibi && position != kNone)
    return fmt::format("positions {}", in_quotes(position));
  if (m.norm && m.norm != "layernorm" && m.norm != "rmsnorm")
    return fmt::format("norm {}", in_quotes(*m.norm));
  return std::nullopt;
}

ModelConfig model_of(const RunRecord& run, std::vector<std::string>& flags) {
  const RunModel& m = run.model;
  const std::string_view position = position_of(m);
  const bool rotary = position == kRope;
  ModelConfig model;
  model.name = m.name;
  set_architecture(model, rotary ? Architecture::kLlama : Architecture::kGpt);
  if (!rotary && position != kLearned) model.position = Position::kNone;
  if (position == kAlibi) flags.emplace_back("ALiBi without its biases of the scores");
  if (m.norm) model.norm = *m.norm == "rmsnorm" ? Norm::kRmsNorm : Norm::kLayerNorm;
  model.biases = biases_of(m);
  model.gated_mlp = m.gated_ffn;
  model.layers = m.layers;
  model.hidden = m.hidden;
  model.heads = m.heads.value_or(nearest_heads(run));
  model.kv_heads = m.kv_heads.value_or(model.heads);
  if (m.head_dim && *m.head_dim * model.heads != m.hidden) model.own_head_size = *m.head_dim;
  model.ffn = m.ffn.value_or(4 * m.hidden);
  model.vocab = m.padded_vocab.value_or(m.vocab);
  model.sequence = m.seq;
  model.tied_embeddings = m.tied_embeddings.value_or(!rotary);
  constexpr std::int64_t kUsualTheta = 10'000;
  if (rotary) model.rope_theta = m.rope_theta.value_or(kUsualTheta);
  add_latent(m.latent, model);
  add_features(m, model);
  add_mixers(m, model);
  add_experts(m, model, flags);
  model.mtp_layers = m.mtp_layers.value_or(0);
  model.global_batch = run.global_batch.value_or(1);
  model.source = run.source;
  if (!m.heads) flags.push_back(fmt::format("{} heads assumed", model.heads));
  if (!m.ffn && (!model.experts || model.dense_layers() > 0))
    flags.push_back(fmt::format("an MLP of width {} assumed", model.ffn));
  return model;
}

}  // namespace zplan
