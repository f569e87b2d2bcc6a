#include "models/model_formulas.h"

#include <algorithm>
#include <numeric>

#include "models/vision_config.h"

namespace zplan {
namespace {

// Forward plus backward (twice the forward) [derived]: the backward product has two inputs.
constexpr std::int64_t kPassesOverForward = 3;
constexpr std::int64_t kFlopPerMultiplyAdd = 2;
constexpr std::int64_t kVocabularyMultiple = 128;  // [Shoeybi19 sec 3]

struct Shape {
  double L, h, s, V;
};

Shape shape_of(const ModelConfig& model) {
  return {static_cast<double>(model.layers), static_cast<double>(model.hidden),
          static_cast<double>(model.sequence), static_cast<double>(model.vocab)};
}

// LayerNorm has a gain and a bias [Ba16], RMSNorm a gain [Zhang19].
std::int64_t norm_parameter_count(const ModelConfig& model) {
  return model.norm_vectors() * model.hidden;
}

// Gains of the norms of queries and keys.
std::int64_t qk_norm_parameter_count(const ModelConfig& model) {
  if (!model.qk_norm) return 0;
  const std::int64_t heads = model.layer.whole_qk_norm ? model.heads + model.kv_heads : 2;
  return heads * model.head_size();
}

// Counts the keys that a token of a layer sees on average, times two, where it sees at most w: 2 w
// - w^2 / s of the s w - w^2 / 2 keys of a sequence, rounded down [derived].
std::int64_t twice_seen_of(std::int64_t s, std::int64_t most) {
  const std::int64_t w = std::min(most, s);
  return 2 * w - w * w / s;
}

// Counts them over all layers, times two: s, the half being masked, 2 s both ways or to an encoder,
// or with a window or an indexer as many as these leave.
std::int64_t twice_seen_keys(const ModelConfig& model) {
  const LayerFeatures& layer = model.layer;
  const std::int64_t s = model.sequence;
  if (model.index) return model.all_layers() * twice_seen_of(s, model.index->keys);
  if (model.encoder_layers > 0) {
    const std::int64_t decoder = model.layers - model.encoder_layers;
    return 2 * model.encoder_layers * s + decoder * (s + 2 * s);
  }
  const std::int64_t all =
      model.has_pattern() ? model.attention_layers() + model.mtp_layers : model.all_layers();
  std::int64_t windowed = 0;
  for (std::int64_t i = 0; i < all; ++i) windowed += layer.window_of(i) > 0 ? 1 : 0;
  const std::int64_t ways = layer.bidirectional ? 2 : 1;
  return ways * ((all - windowed) * s + windowed * twice_seen_of(s, layer.window));
}

// Counts what indexers multiply for a token, over all layers: scores of all keys before it, and
// their gradients, for queries and keys, of those that it sees [derived].
std::int64_t index_flop(const ModelConfig& model) {
  if (!model.index) return 0;
  constexpr std::int64_t kGradients = 2;
  const std::int64_t s = model.sequence, seen = twice_seen_of(s, model.index->keys);
  return model.all_layers() * model.index->heads * model.index->head_size * (s + kGradients * seen);
}

// Elements of the latents of a token.
std::int64_t latent_width(const LatentShape& latent) {
  return latent.query_rank + latent.key_value_rank;
}

// The first products and the second of an MLP of this width.
std::int64_t mlp_parameter_count(const ModelConfig& model, std::int64_t width,
                                 std::int64_t hidden) {
  return hidden * width * (model.gated_mlp ? 3 : 2);
}

// Of the MLP, or of router, so many of the experts and the shared one.
std::int64_t feed_forward_parameter_count(const ModelConfig& model, std::int64_t experts) {
  const std::int64_t h = model.hidden;
  if (!model.experts) return mlp_parameter_count(model, model.ffn, h);
  const ExpertShape& shape = *model.experts;
  return h * (shape.count + (shape.shared_gate ? 1 : 0) + 2 * shape.latent) +
         mlp_parameter_count(model, experts * shape.ffn, model.expert_hidden()) +
         mlp_parameter_count(model, shape.shared_ffn, h);
}

// These count the products of an indexer, and its norm.
std::int64_t index_matmul_count(const ModelConfig& model) {
  if (!model.index) return 0;
  const IndexShape& index = *model.index;
  return model.latent->query_rank * index.heads * index.head_size +
         model.hidden * (index.head_size + index.heads);
}
std::int64_t index_vector_count(const ModelConfig& model) {
  return model.index ? 2 * model.index->head_size : 0;
}

// Counts a layer's vectors beside latents: their norms, and an indexer's.
std::int64_t latent_vector_count(const ModelConfig& model) {
  return model.latent ? latent_width(*model.latent) + index_vector_count(model) : 0;
}

std::int64_t attention_parameter_count(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t latents =
      model.latent ? latent_width(*model.latent) + model.latent->rope_size : 0;
  const std::int64_t gates = model.layer.attention_gate ? 1 : 0;
  return h * latents + qkv_parameter_count(model) + (1 + gates) * model.attention_width() * h +
         index_matmul_count(model);
}

// Of a layer that attends to an encoder, with as many heads: matrices, and biases.
std::int64_t cross_parameter_count(const ModelConfig& model) {
  return model.encoder_layers > 0 ? 4 * model.hidden * model.attention_width() : 0;
}
std::int64_t cross_bias_count(const ModelConfig& model) {
  if (model.encoder_layers == 0 || model.biases == Biases::kNone) return 0;
  return model.qkv_width() + (model.has_output_biases() ? model.hidden : 0);
}

// Of a layer with so many experts, or with an MLP.
std::int64_t bias_count(const ModelConfig& model, std::int64_t experts) {
  if (model.biases == Biases::kNone) return 0;
  if (model.biases == Biases::kQkv) return model.qkv_width();
  const std::int64_t attention = model.qkv_width() + model.hidden;
  if (model.biases == Biases::kAttention) return attention;
  if (!model.experts) return attention + model.up_width() + model.hidden;
  return attention + model.expert_count() + experts * model.expert_bias_width();
}

// These count a mixer's products, and its vectors and convolutions, without the norm before it.
std::int64_t mixer_matmul_count(const ModelConfig& model, Mixer mixer) {
  const std::int64_t h = model.hidden;
  switch (mixer) {
    case Mixer::kNone:
      return 0;
    case Mixer::kAttention:
      return attention_parameter_count(model);
    case Mixer::kMamba:
      return h * (model.mamba->in_width() + model.mamba->inner());
    case Mixer::kDelta:
      return h * (model.delta->in_width() + model.delta->values());
    case Mixer::kKimi: {
      const KimiShape& k = *model.kimi;
      return h * (k.in_width() + k.low_width() + k.width()) + k.low_width() * k.width();
    }
    case Mixer::kSelective: {
      const SelectiveShape& s = *model.selective;
      return s.inner * (3 * h + s.low_width() + s.rank);
    }
    case Mixer::kShort:
      return h * (model.short_convolution->in_width() + model.short_convolution->width);
    case Mixer::kBoth:
      return mixer_matmul_count(model, Mixer::kMamba) +
             mixer_matmul_count(model, Mixer::kAttention);
  }
  return 0;
}
std::int64_t mixer_vector_count(const ModelConfig& model, Mixer mixer) {
  if (mixer == Mixer::kMamba) {
    const MambaShape& m = *model.mamba;
    constexpr std::int64_t kOfHeads = 3;  // what dt begins with, A and D
    return m.conv_width() * (m.conv + 1) + kOfHeads * m.heads + (m.norm ? m.inner() : 0);
  }
  if (mixer == Mixer::kDelta) {
    const DeltaShape& d = *model.delta;
    constexpr std::int64_t kOfHeads = 2;  // what dt begins with, and A
    return d.conv_width() * d.conv + kOfHeads * d.value_heads + d.value_size;
  }
  if (mixer == Mixer::kKimi) {
    const KimiShape& k = *model.kimi;
    return k.conv_width() * k.conv + k.width() + k.heads + k.size;  // dt_bias, A, gain
  }
  if (mixer == Mixer::kShort) return model.short_convolution->width * model.short_convolution->conv;
  if (mixer == Mixer::kBoth)
    return mixer_vector_count(model, Mixer::kMamba) + mixer_vector_count(model, Mixer::kAttention);
  if (mixer == Mixer::kSelective) {
    const SelectiveShape& s = *model.selective;
    // The convolution with its bias, what steps begin with, A and D; gains.
    return s.inner * (s.conv + 1 + 1 + s.state + 1) + s.low_width();
  }
  if (mixer == Mixer::kNone) return 0;
  std::int64_t biases = 0;
  if (model.biases != Biases::kNone) biases = model.qkv_width();
  if (model.has_output_biases()) biases += model.hidden;
  return biases + qk_norm_parameter_count(model) + latent_vector_count(model) +
         (model.layer.attention_sinks ? model.heads : 0);
}

// The same of what follows a mixer, with so many experts.
std::int64_t feed_forward_matmul_count(const ModelConfig& model, FeedForward feed_forward,
                                       std::int64_t experts) {
  if (feed_forward == FeedForward::kNone) return 0;
  if (feed_forward == FeedForward::kMlp) return mlp_parameter_count(model, model.ffn, model.hidden);
  return feed_forward_parameter_count(model, experts);
}
std::int64_t feed_forward_vector_count(const ModelConfig& model, FeedForward feed_forward) {
  if (feed_forward == FeedForward::kNone) return 0;
  const bool biases = model.biases == Biases::kAll;
  if (feed_forward == FeedForward::kMlp) return biases ? model.up_width() + model.hidden : 0;
  return (biases ? model.expert_count() * (1 + model.expert_bias_width()) : 0) +
         (model.experts->selection_bias ? model.expert_count() : 0);
}

std::int64_t matmul_count_of(const ModelConfig& model, const LayerParts& parts,
                             std::int64_t experts) {
  return mixer_matmul_count(model, parts.mixer) +
         feed_forward_matmul_count(model, parts.feed_forward, experts);
}
std::int64_t count_of(const ModelConfig& model, const LayerParts& parts) {
  const std::int64_t branches =
      (parts.mixer != Mixer::kNone ? 1 : 0) + (parts.feed_forward != FeedForward::kNone ? 1 : 0);
  return matmul_count_of(model, parts, model.expert_count()) +
         mixer_vector_count(model, parts.mixer) +
         feed_forward_vector_count(model, parts.feed_forward) +
         branches * norm_parameter_count(model);
}

// Sums what `count` gives of each layer of a pattern, and of those of modules behind it.
template <typename Count>
std::int64_t sum_of_layers(const ModelConfig& model, const Count& count) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < model.all_layers(); ++i) sum += count(model.parts_of(i));
  return sum;
}
template <typename Count>
std::int64_t largest_of_layers(const ModelConfig& model, const Count& count) {
  std::int64_t largest = 0;
  for (const LayerParts& parts : model.pattern) largest = std::max(largest, count(parts));
  return largest;
}

// Counts what the recurrences of states do in forward for a token, over all layers: Megatron-LM
// counts 7 flop for each element of a Mamba-2 state and 4 multiply-adds for each of a gated delta
// net's [MegatronCore]. A state of Mamba-1 does what Mamba-2's does, one of Kimi
// delta attention what the latter does.
std::int64_t state_flop(const ModelConfig& model) {
  std::int64_t flop = 0;
  constexpr std::int64_t kOfMamba = 7, kOfDelta = 4;
  if (model.mamba)
    flop += model.mamba_layers() * kOfMamba * model.mamba->inner() * model.mamba->state;
  if (model.delta)
    flop += model.layers_with(Mixer::kDelta) * kOfDelta * kFlopPerMultiplyAdd *
            model.delta->values() * model.delta->key_size;
  if (model.kimi)
    flop += model.layers_with(Mixer::kKimi) * kOfDelta * kFlopPerMultiplyAdd * model.kimi->width() *
            model.kimi->size;
  if (model.selective)
    flop += model.layers_with(Mixer::kSelective) * kOfMamba * model.selective->inner *
            model.selective->state;
  return flop;
}

// Of what all layers have so many experts of.
std::int64_t matmul_parameter_count_with(const ModelConfig& model, std::int64_t experts) {
  if (model.has_pattern())
    return sum_of_layers(
               model,
               [&](const LayerParts& parts) { return matmul_count_of(model, parts, experts); }) +
           mtp_projection_count(model) +
           (model.vocab + (model.layer.head_transform ? model.hidden : 0)) * model.hidden;
  const std::int64_t dense = model.dense_layers(), all = model.all_layers();
  const std::int64_t others = all - dense;
  return all * attention_parameter_count(model) + mtp_projection_count(model) +
         (model.layers - model.encoder_layers) * cross_parameter_count(model) +
         dense * mlp_parameter_count(model, model.ffn, model.hidden) +
         others * feed_forward_parameter_count(model, experts) +
         (model.vocab + (model.layer.head_transform ? model.hidden : 0)) * model.hidden;
}

}  // namespace

std::int64_t mtp_projection_count(const ModelConfig& model) {
  return model.mtp_layers * 2 * model.hidden * model.hidden;
}

std::int64_t further_head_elements(const ModelConfig& model) {
  return model.mtp_layers * model.vocab * model.hidden;
}

std::int64_t qkv_parameter_count(const ModelConfig& model) {
  if (!model.latent) return model.hidden * model.qkv_width();
  const LatentShape& latent = *model.latent;
  const std::int64_t before_queries = latent.query_rank > 0 ? latent.query_rank : model.hidden;
  return model.heads * (before_queries * model.head_size() +
                        latent.key_value_rank * (latent.nope_size + latent.value_size));
}

std::int64_t layer_matmul_parameter_count(const ModelConfig& model) {
  if (model.has_pattern())
    return largest_of_layers(model, [&](const LayerParts& parts) {
      return matmul_count_of(model, parts, model.expert_count());
    });
  return attention_parameter_count(model) + cross_parameter_count(model) +
         feed_forward_parameter_count(model, model.expert_count());
}

std::int64_t matmul_parameter_count(const ModelConfig& model) {
  return matmul_parameter_count_with(model, model.expert_count());
}

std::int64_t active_matmul_parameter_count(const ModelConfig& model) {
  return matmul_parameter_count_with(model, model.experts_per_token());
}

std::int64_t parts_parameter_count(const ModelConfig& model, const LayerParts& parts) {
  return count_of(model, parts);
}

std::int64_t layer_parameter_count(const ModelConfig& model) {
  if (model.has_pattern())
    return largest_of_layers(model,
                             [&](const LayerParts& parts) { return count_of(model, parts); });
  const LayerFeatures& layer = model.layer;
  const bool one_norm = layer.parallel_residual == ParallelResidual::kOneNorm;
  // Norms behind branches alone are as many as those before them.
  const std::int64_t of_branches =
      (one_norm ? 1 : 2) + (layer.post_norms ? 2 : 0) + (model.encoder_layers > 0 ? 1 : 0);
  const std::int64_t norms = of_branches * norm_parameter_count(model) +
                             qk_norm_parameter_count(model) + latent_vector_count(model);
  std::int64_t biases = bias_count(model, model.expert_count()) + cross_bias_count(model);
  if (model.experts && model.experts->selection_bias) biases += model.expert_count();
  const std::int64_t sinks = layer.attention_sinks ? model.heads : 0;
  return layer_matmul_parameter_count(model) + biases + norms + sinks;
}

std::int64_t vision_parameter_count(const ModelConfig& model) {
  if (!model.vision) return 0;
  const VisionShape& v = *model.vision;
  return v.layers * layer_parameter_count(tower_layers_of(model)) + v.parameters_outside();
}

Flops vision_flops_per_sequence(const ModelConfig& model) {
  if (!model.vision) return {0};
  const VisionShape& v = *model.vision;
  const std::int64_t patches = v.all_patches(), tokens = v.tokens();
  std::int64_t products =
      patches *
      (v.layers * layer_matmul_parameter_count(tower_layers_of(model)) + v.patch * v.hidden);
  for (const Projector& projector : v.projectors())
    for (const ProjectorStep& step : projector)
      if (step.kind == ProjectorStep::Kind::kProduct)
        products += (step.merged ? tokens : patches) * step.in * step.out;
  std::int64_t seen = 0;
  for (std::int64_t i = 0; i < v.layers; ++i) seen += patches / v.parts_of(i);
  return {kFlopPerMultiplyAdd * (products + 2 * patches * seen * v.hidden)};
}

std::int64_t parameter_count(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t embeddings = (model.tied_embeddings ? 1 : 2) * model.vocab * h;
  const std::int64_t rows = model.positions() + model.layer.unused_positions + model.layer.segments;
  const std::int64_t stacks = model.encoder_layers > 0 ? 2 : 1;
  const std::int64_t positions = stacks * (rows * h + model.layer.relative_buckets * model.heads);
  constexpr std::int64_t kMtpNorms = 3;
  const std::int64_t norms =
      (stacks + (model.layer.embedding_norm ? 1 : 0) + kMtpNorms * model.mtp_layers) *
      norm_parameter_count(model);
  const std::int64_t left_out =
      model.layer.bare_first_branch ? norm_parameter_count(model) : std::int64_t{0};
  const std::int64_t plain = model.encoder_layers + model.dense_layers();
  std::int64_t layers = 0;
  if (model.has_pattern()) {
    layers = sum_of_layers(model, [&](const LayerParts& parts) { return count_of(model, parts); }) +
             mtp_projection_count(model);
  } else {
    layers =
        (model.all_layers() - plain) * layer_parameter_count(model) + mtp_projection_count(model);
    if (plain > 0) layers += plain * layer_parameter_count(plain_layers_of(model));
  }
  std::int64_t head = model.layer.head_bias ? model.vocab : 0;
  if (model.layer.head_transform)
    head +=
        h * h + (model.biases == Biases::kAll ? h : 0) + norm_parameter_count(model) + model.vocab;
  return layers + embeddings + positions + norms + head - left_out + vision_parameter_count(model);
}

std::int64_t active_parameter_count(const ModelConfig& model) {
  const std::int64_t left_out = model.expert_count() - model.experts_per_token();
  const std::int64_t with_experts = model.expert_layers() + (model.experts ? model.mtp_layers : 0);
  const std::int64_t biases = with_experts * left_out * model.expert_bias_width();
  return parameter_count(model) - matmul_parameter_count(model) +
         active_matmul_parameter_count(model) - biases;
}

std::int64_t padded_vocab(const ModelConfig& model, std::int64_t tensor_parallel,
                          std::int64_t tiles) {
  return round_up(model.vocab, std::lcm(kVocabularyMultiple, tiles) * tensor_parallel);
}

Flops model_flops_per_token(const ModelConfig& model) {
  const std::int64_t weights =
      kPassesOverForward * kFlopPerMultiplyAdd *
      (active_matmul_parameter_count(model) + further_head_elements(model));
  // Scores and weighted values: products of a d and a v multiply-adds for each key that is seen
  // [derived].
  const std::int64_t columns = model.heads * model.head_size() + model.attention_width();
  const std::int64_t attention = kPassesOverForward * columns * twice_seen_keys(model);
  return {weights + attention + kPassesOverForward * state_flop(model) + index_flop(model)};
}

double model_flops_per_step(const ModelConfig& model, std::int64_t global_batch) {
  const double text =
      static_cast<double>(model_flops_per_token(model).value) * static_cast<double>(model.sequence);
  const auto tower = static_cast<double>(vision_flops_per_sequence(model).value);
  return (text + kPassesOverForward * tower) * static_cast<double>(global_batch);
}

double narayanan_parameters(const ModelConfig& model) {
  const auto [L, h, s, V] = shape_of(model);
  return 12 * L * h * h * (1 + 13 / (12 * h) + (V + s) / (12 * L * h));  // [Narayanan21 Eq.2]
}

double narayanan_hardware_flops(const ModelConfig& model, std::int64_t global_batch) {
  const auto [L, h, s, V] = shape_of(model);
  const auto B = static_cast<double>(global_batch);
  return 96 * B * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h));  // [Narayanan21 Eq.3]
}

double korthikanti_model_flops(const ModelConfig& model, std::int64_t global_batch) {
  const auto [L, h, s, V] = shape_of(model);
  const auto B = static_cast<double>(global_batch);
  return 72 * B * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));  // [Korthikanti22 Eq.7]
}

}  // namespace zplan
