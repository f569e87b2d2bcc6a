#include "planner/lower/blocks/decoder.h"

#include <algorithm>

#include "models/model_formulas.h"
#include "models/vision_config.h"
#include "planner/lower/blocks/attention.h"
#include "planner/lower/blocks/cross_attention.h"
#include "planner/lower/blocks/experts.h"
#include "planner/lower/blocks/gated_delta.h"
#include "planner/lower/blocks/kimi_delta.h"
#include "planner/lower/blocks/latent_attention.h"
#include "planner/lower/blocks/mamba.h"
#include "planner/lower/blocks/mlp.h"
#include "planner/lower/blocks/selective_mamba.h"
#include "planner/lower/blocks/short_convolution.h"
#include "planner/lower/blocks/side_by_side.h"
#include "planner/plan/pattern_cuts.h"

namespace zplan {
namespace {

// Calls body(number) with each of the layers that take turns.
template <typename Body>
void for_each_turn(const ModelConfig& model, const Body& body) {
  for (std::int64_t i = 0; i < model.layer.turn_layers(); ++i) body(i);
}

std::vector<RopeShape> ropes_of(const ModelConfig& model) {
  std::vector<RopeShape> ropes;
  if (model.position != Position::kRope) return ropes;
  const LayerFeatures& layer = model.layer;
  for_each_turn(model, [&](std::int64_t i) {
    if (!layer.turns(i)) {
      ropes.push_back({});
    } else if (layer.window_of(i) > 0 && layer.local_rope_theta > 0) {
      ropes.push_back({layer.local_rope_theta, layer.rotary_size});
    } else {
      ropes.push_back({model.rope_theta, layer.rotary_size, layer.rope_stretch});
    }
  });
  return ropes;
}

AttentionScores scores_of(const ModelConfig& model) {
  AttentionScores scores{.windows = {},
                         .cap = model.layer.attention_cap,
                         .divisor = model.layer.attention_divisor,
                         .sinks = model.layer.attention_sinks,
                         .both_ways = model.layer.bidirectional};
  if (model.position == Position::kAlibi) scores.slopes = model.heads;
  scores.biased = model.layer.relative_buckets > 0;
  for_each_turn(model, [&](std::int64_t i) { scores.windows.push_back(model.layer.window_of(i)); });
  return scores;
}

AttentionShape attention_of(const ModelConfig& model) {
  AttentionShape shape{.heads = {model.heads, model.kv_heads, model.head_size()}};
  shape.qk_norm = model.qk_norm;
  shape.whole_qk_norm = model.layer.whole_qk_norm;
  shape.norm_epsilon = model.layer.norm_epsilon;
  shape.ropes = ropes_of(model);
  shape.scores = scores_of(model);
  shape.gate = model.layer.attention_gate;
  shape.qkv_bias = model.biases != Biases::kNone;
  shape.projection_bias = model.has_output_biases();
  shape.factors = model.factors;
  return shape;
}

// `is_last`: nothing follows in the layer.
std::unique_ptr<Body> make_attention(LayerMaker& maker, const ModelConfig& model, bool is_last) {
  if (model.latent) return std::make_unique<LatentAttention>(maker, model);
  AttentionShape shape = attention_of(model);
  shape.ends_layer = is_last;
  return std::make_unique<SelfAttention>(maker, shape);
}

ActivationFunction function_of(const ModelConfig& model) {
  const Activation own = model.gated_mlp ? Activation::kSilu : Activation::kGeluTanh;
  const Activation activation = model.layer.activation;
  return activation == own ? ActivationFunction::kOwn : static_cast<ActivationFunction>(activation);
}
static_assert(static_cast<int>(Activation::kSquaredRelu) ==
              static_cast<int>(ActivationFunction::kSquaredRelu));

MlpShape mlp_of(const ModelConfig& model) {
  return {model.ffn,
          model.gated_mlp,
          model.biases == Biases::kAll,
          {function_of(model), model.layer.activation_limit, model.layer.up_offset},
          model.factors};
}

std::optional<PostNorm> make_post_norm(LayerMaker& maker, const ModelConfig& model, Part part,
                                       const std::string& number, OperatorSet of) {
  if (!model.layer.has_post_norms()) return std::nullopt;
  return PostNorm(maker, norm_of(model), part, number, of);
}

// The MLP or, of all tokens by their choices, experts.
std::unique_ptr<Body> make_mlp(LayerMaker& maker, const ModelConfig& model) {
  if (model.experts) return std::make_unique<Experts>(maker, *model.experts, mlp_of(model));
  return std::make_unique<Mlp>(maker, mlp_of(model));
}

// To what the encoder gives; its values have names of their own.
Branch make_cross_attention(LayerMaker& m, const ModelConfig& model) {
  m.values.begin("cross.");
  m.params.begin("cross", Part::kCross);
  BranchNorm norm(m, norm_of(model), Part::kCrossNorm, "cross_norm", "", false);
  auto attention = std::make_unique<CrossAttention>(m, attention_of(model));
  const Value out = m.values.add({.name = "out",
                                  .shape = {m.local_tokens(), m.h()},
                                  .dtype = m.compute(),
                                  .of = LayerOperator::kProjection});
  Residual sum(m, Part::kCrossResidual, LayerOperator::kProjection, "mask");
  m.values.begin("");
  return {norm, std::move(attention), std::nullopt, sum, out};
}

std::unique_ptr<Body> make_mamba(LayerMaker& maker, const ModelConfig& model) {
  return std::make_unique<Mamba>(maker, *model.mamba, model.factors, model.layer.norm_epsilon);
}

std::unique_ptr<Body> make_mixer(LayerMaker& maker, const ModelConfig& model, Mixer mixer,
                                 bool is_last) {
  if (mixer == Mixer::kMamba) return make_mamba(maker, model);
  if (mixer == Mixer::kBoth) {
    auto mamba = make_mamba(maker, model);
    maker.params.begin("qkv", Part::kQkv);
    return std::make_unique<SideBySide>(std::move(mamba), make_attention(maker, model, true));
  }
  if (mixer == Mixer::kDelta)
    return std::make_unique<GatedDelta>(maker, *model.delta, model.layer.norm_epsilon);
  if (mixer == Mixer::kKimi)
    return std::make_unique<KimiDelta>(maker, *model.kimi, model.layer.norm_epsilon);
  if (mixer == Mixer::kShort)
    return std::make_unique<ShortConvolution>(maker, *model.short_convolution);
  if (mixer == Mixer::kSelective)
    return std::make_unique<SelectiveMamba>(maker, *model.selective, model.layer.norm_epsilon);
  return make_attention(maker, model, is_last);
}

// The operator that the sum behind a mixer is replayed with.
OperatorSet gives(const LayerParts& parts) {
  if (parts.mixer != Mixer::kAttention || parts.feed_forward == FeedForward::kNone) return {};
  return LayerOperator::kProjection;
}

// The masks of dropout lie side by side, whatever comes between.
struct LayerSums {
  Value middle;  // behind the mixer, where something follows
  Residual mixer, last;
};
LayerSums make_sums(LayerMaker& m, const LayerParts& parts, bool parallel, std::int64_t factor) {
  const OperatorSet of = gives(parts);
  Value middle;
  if (parts.mixer != Mixer::kNone && parts.feed_forward != FeedForward::kNone)
    middle = m.values.add({.name = "middle",
                           .shape = {m.local_tokens(), m.h()},
                           .dtype = m.compute(),
                           .of = of,
                           .life = parallel ? Life::kForward : Life::kBackward});
  const bool one = !middle, mixer_alone = parts.feed_forward == FeedForward::kNone;
  if (one) {
    const Residual sum = mixer_alone ? Residual(m, Part::kAttentionResidual, {}, "mask1", factor)
                                     : Residual(m, Part::kMlpResidual, {}, "mask2", factor);
    return {middle, sum, sum};
  }
  const Residual first(m, Part::kAttentionResidual, of, "mask1", factor);
  return {middle, first, Residual(m, Part::kMlpResidual, {}, "mask2", factor)};
}

// The operator that the norm before a mixer and its first product are in.
struct FirstOperator {
  const char* name;
  Part part;
};
FirstOperator first_operator(Mixer mixer) {
  if (mixer == Mixer::kAttention) return {"qkv", Part::kQkv};
  if (mixer == Mixer::kKimi) return {"gates", Part::kDecayDown};
  return {"state_in", Part::kStateIn};
}

// A mixer of tokens, usually attention, to an encoder's output where there is one, then the MLP or
// experts; a layer of a pattern may lack one of them. An operator begins with the norm before its
// product.
LayerKind make_layer(const std::string& name, const LayerRange& layers, const ModelConfig& model,
                     const Maker& maker) {
  std::optional<NormKind> norm;
  if (model.layer.has_pre_norms()) norm = norm_of(model);
  const std::optional<NormKind> first_norm = model.layer.bare_first_branch ? std::nullopt : norm;
  const ParallelResidual parallel = model.layer.parallel_residual;
  const bool keeps_sums = model.layer.has_post_norms() && !maker.sequence_parallel();
  const LayerParts parts = model.has_pattern() ? model.parts_of(0) : LayerParts{};
  LayerKind layer{
      name, layers, {}, {}, parallel != ParallelResidual::kNone, model.layer.residual_of_norm};
  maker.params.begin_kind(layer.name, layers);
  LayerMaker m{maker, layer.values, keeps_sums};
  // A residual that goes on from it reads a norm, too, and so do routers; two branches that share
  // one, or the products of latents, each cast it for themselves.
  const bool plain = !model.layer.residual_of_norm && parallel != ParallelResidual::kOneNorm;
  std::optional<BranchNorm> norm1;
  std::unique_ptr<Body> mixer;
  std::optional<PostNorm> post1;
  if (parts.mixer != Mixer::kNone) {
    const bool attends = parts.mixer == Mixer::kAttention;
    const FirstOperator first = first_operator(parts.mixer);
    m.params.begin(first.name, first.part);
    norm1.emplace(m, first_norm, Part::kAttentionNorm, "norm1", "1",
                  plain && attends && !model.latent);
    mixer = make_mixer(m, model, parts.mixer, parts.feed_forward == FeedForward::kNone);
    post1 = make_post_norm(m, model, Part::kAttentionPostNorm, "1", LayerOperator::kProjection);
  }
  const LayerSums sums = make_sums(m, parts, layer.parallel, model.layer.residual_factor);
  if (mixer)
    layer.branches.emplace_back(*norm1, std::move(mixer), std::move(post1), sums.mixer,
                                sums.middle);
  if (model.encoder_layers > 0) layer.branches.push_back(make_cross_attention(m, model));
  if (parts.feed_forward == FeedForward::kNone) return layer;
  m.params.begin(model.experts ? "router" : "fc1", model.experts ? Part::kRouter : Part::kFc1);
  BranchNorm norm2 =
      parallel == ParallelResidual::kOneNorm
          ? norm1->shared_by(Part::kMlpNorm)
          : BranchNorm(m, norm, Part::kMlpNorm, "norm2", "2", plain && !model.experts);
  auto mlp = make_mlp(m, model);
  auto post2 = make_post_norm(m, model, Part::kMlpPostNorm, "2", {});
  layer.branches.emplace_back(norm2, std::move(mlp), std::move(post2), sums.last, Value{});
  return layer;
}

NormBlock make_final_norm(const ModelConfig& model, Maker& maker) {
  maker.params.begin("final_norm", Part::kFinalNorm, Held::kLastStage);
  return {maker, norm_of(model), Part::kFinalNorm, "final_norm", model.hidden};
}

// All modules are one unit. The matrix is whole on every tensor parallel rank, which with sequence
// parallelism multiplies its own tokens with it.
std::vector<MtpModule> make_mtp(const ModelConfig& model, const Maker& maker) {
  std::vector<MtpModule> modules;
  if (model.mtp_layers == 0) return modules;
  maker.params.begin("mtp", Part::kMtpProjection, Held::kLastStage);
  const std::int64_t h = model.hidden;
  const Shape shape{2 * h, h};
  for (std::int64_t i = 0; i < model.mtp_layers; ++i) {
    Maker own = maker;
    own.naming = maker.naming.of_layer(model.layers + i);
    const auto norm = [&](Part part, std::string_view tensor) {
      return NormBlock(own, norm_of(model), part, tensor, h);
    };
    const NormBlock embedding = norm(Part::kMtpEmbedding, "mtp_embedding_norm");
    const NormBlock hidden = norm(Part::kMtpHidden, "mtp_hidden_norm");
    const Param projection = own.params.add({own.naming.of("mtp_projection", ".weight"), shape,
                                             shape, Init::kNormal, own.naming.std().usual, true});
    modules.push_back({embedding, hidden, projection, norm(Part::kFinalNorm, "mtp_final_norm")});
  }
  return modules;
}

// Its activation is that of the MLP, of a gated one the gate's.
std::optional<HeadTransform> make_head_transform(const ModelConfig& model, Maker& maker) {
  if (!model.layer.head_transform) return std::nullopt;
  ModelConfig plain = model;
  plain.gated_mlp = false;
  if (model.gated_mlp && model.layer.activation == Activation::kUsual)
    plain.layer.activation = Activation::kSilu;
  return HeadTransform(maker, norm_of(model), {function_of(plain)}, model.biases == Biases::kAll);
}

bool has_head_bias(const ModelConfig& model) {
  return model.layer.head_bias || model.layer.head_transform;
}

std::optional<HeadBias> make_head_bias(const ModelConfig& model, const Vocabulary& vocabulary,
                                       Maker& maker) {
  if (!has_head_bias(model)) return std::nullopt;
  return HeadBias(maker, vocabulary);
}

std::optional<Attributes> logit_scale_of(const LayerFeatures& layer, std::int64_t hidden) {
  if (layer.scaled_logits) return Attributes{1, hidden, 1};
  if (layer.logit_divisor == kFactorUnit) return std::nullopt;
  return Attributes{kFactorUnit, layer.logit_divisor};
}

// Its tables stay whole where the head is worked off in pieces of tokens, or where a bias stands
// beside it.
Vocabulary vocabulary_of(const ModelConfig& model, const Plan& plan) {
  const bool whole = plan.head_chunks > 1 || has_head_bias(model);
  const std::int32_t tiles = whole ? 1 : plan.gather.tiles();
  return {model.vocab, padded_vocab(model, plan.parallel.tp, tiles), tiles};
}

EmbeddingSize embedding_of(const ModelConfig& model) {
  return {
      .positions = model.positions(),
      .unused = model.layer.unused_positions,
      .squared_scale = model.layer.scaled_embedding ? model.hidden : model.layer.embedding_square,
      .segments = model.layer.segments,
      .shares_table = model.encoder_layers > 0,
      .relative = {model.layer.relative_buckets, model.layer.relative_distance, model.heads}};
}

std::optional<Encoder> make_encoder(const ModelConfig& model, Maker& maker,
                                    const Embedding& embedding) {
  if (model.encoder_layers == 0) return std::nullopt;
  EmbeddingSize size = embedding_of(model);
  size.relative.both_ways = true;
  Embedding own(maker, embedding, size);
  maker.params.begin("encoder_norm", Part::kEncoderNorm, Held::kFirstStage);
  NormBlock norm(maker, norm_of(model), Part::kEncoderNorm, "encoder_norm", model.hidden);
  return Encoder{static_cast<std::int32_t>(model.encoder_layers), own, norm};
}

std::optional<NormBlock> make_embedding_norm(const ModelConfig& model, Maker& maker) {
  if (!model.layer.embedding_norm) return std::nullopt;
  maker.params.begin("embedding_norm", Part::kEmbeddingNorm, Held::kFirstStage);
  return NormBlock(maker, norm_of(model), Part::kEmbeddingNorm, "embedding_norm", model.hidden);
}

std::vector<LayerKind> make_tower_layers(const ModelConfig& model, const Maker& maker) {
  const ModelConfig like = tower_layers_of(model);
  const auto first = static_cast<std::int32_t>(model.all_layers());
  std::vector<LayerKind> kinds;
  const VisionShape& vision = *model.vision;
  for (std::int32_t i = 0; i < vision.layers;) {
    Maker own = maker;
    own.attention_parts = vision.parts_of(i);
    LayerRange range{first + i, 0};
    for (; i < vision.layers && vision.parts_of(i) == own.attention_parts; ++i) ++range.count;
    kinds.push_back(make_layer("tower" + std::to_string(kinds.size()), range, like, own));
  }
  return kinds;
}

std::optional<VisionTower> make_tower(const ModelConfig& model, const Plan& plan,
                                      const Maker& maker) {
  if (!model.vision) return std::nullopt;
  const VisionShape& vision = *model.vision;
  Maker own = maker;
  const InVisionTower in_tower(own, vision);
  own.naming = Naming::of_tower(model, model.all_layers());
  own.params.enter(ParamTable::Tower::kTower);
  PatchEmbedding embedding(own, vision);
  std::vector<LayerKind> kinds = make_tower_layers(model, own);
  own.params.enter(ParamTable::Tower::kProjector);
  own.params.begin("projector", Part::kProjector, Held::kFirstStage);
  std::vector<std::vector<ProjectorBlock>> projectors;
  std::int64_t number = 0;
  for (const Projector& projector : vision.projectors()) {
    projectors.emplace_back();
    for (const ProjectorStep& step : projector)
      projectors.back().emplace_back(own, step, vision.merge, number++);
  }
  own.params.enter(ParamTable::Tower::kNone);
  const LayerRange layers{static_cast<std::int32_t>(model.all_layers()),
                          static_cast<std::int32_t>(vision.layers)};
  return VisionTower{vision,
                     layers,
                     std::move(kinds),
                     std::move(embedding),
                     std::move(projectors),
                     plan.train.has_trained_tower(),
                     plan.train.has_trained_projector()};
}

}  // namespace

std::vector<LayerKind> Decoder::make_layers(const std::vector<Kind>& kinds, const Maker& maker) {
  std::vector<LayerKind> layers;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    layers.push_back(make_layer(kinds.size() == 1 ? "layer" : "layer" + std::to_string(i),
                                kinds[i].layers, kinds[i].model, maker));
  return layers;
}

// Returns the kinds of a turn; or each run of equal layers by itself, those of modules included.
std::vector<Decoder::Kind> Decoder::kinds_of_pattern(const ModelConfig& model, bool in_turns) {
  std::vector<Kind> kinds;
  const std::int64_t count = in_turns ? model.kind_layers() : model.all_layers();
  for (std::int64_t i = 0; i < count; ++i) {
    const bool goes_on =
        !in_turns && i > 0 && i != model.layers && model.parts_of(i) == model.parts_of(i - 1);
    if (!goes_on) kinds.push_back({layer_of_pattern(model, i)});
    if (in_turns) continue;
    if (!goes_on) kinds.back().layers.first = static_cast<std::int32_t>(i);
    ++kinds.back().layers.count;
  }
  return kinds;
}

// Layers of a tower are kinds by themselves, so that those of the model have ranges, too.
std::vector<Decoder::Kind> Decoder::kinds_beside_tower(const ModelConfig& model) {
  if (model.has_pattern()) return kinds_of_pattern(model, false);
  const ModelConfig plain = plain_layers_of(model);
  std::vector<Kind> kinds;
  bool had_experts = false;
  for (std::int32_t i = 0; i < model.layers; ++i) {
    const bool has_experts = model.experts && model.experts->is_in(i);
    if (i == 0 || has_experts != had_experts)
      kinds.push_back({has_experts || !model.experts ? model : plain, {i, 0}});
    ++kinds.back().layers.count;
    had_experts = has_experts;
  }
  return kinds;
}

std::vector<Decoder::Kind> Decoder::kinds_of(const ModelConfig& model, const Plan& plan,
                                             PatternTurns turns) {
  if (model.vision) return kinds_beside_tower(model);
  if (model.has_pattern())
    return kinds_of_pattern(model, turns == PatternTurns::kWhole || comes_in_turns(plan, model));
  const ModelConfig plain = plain_layers_of(model);
  if (model.kind_layers() > 1) {
    std::vector<Kind> turn;
    for (std::int64_t i = 0; i < model.kind_layers(); ++i)
      turn.push_back({model.experts->is_in(i) ? model : plain});
    return turn;
  }
  const auto first = static_cast<std::int32_t>(model.first_layers());
  if (first == 0) return {{model}};
  const auto others = static_cast<std::int32_t>(model.all_layers()) - first;
  ModelConfig rest = model;
  rest.layer.bare_first_branch = false;
  return {{plain, {0, first}}, {rest, {first, others}}};
}

Decoder::Decoder(const ModelConfig& model, const Plan& plan, const KernelSet& kernels,
                 PatternTurns turns)
    : Decoder(model, kinds_of(model, plan, turns), plan, kernels) {}

Decoder::Decoder(const ModelConfig& model, std::span<const ModelConfig> kinds, const Plan& plan,
                 const KernelSet& kernels)
    : Decoder(
          model,
          [&] {
            std::vector<Kind> all;
            for (const ModelConfig& kind : kinds) all.push_back({kind});
            return all;
          }(),
          plan, kernels) {}

Decoder::Decoder(const ModelConfig& model, const std::vector<Kind>& kinds, const Plan& plan,
                 const KernelSet& kernels)
    : params_(plan.train),
      maker_{{plan, kernels, model.hidden, model.layers, plan.rank_sequence(),
              model.layer.turn_layers(), model.has_pattern(), model.mtp_layers},
             Naming(model),
             params_},
      vocabulary_(vocabulary_of(model, plan)),
      embedding_(
          maker_, vocabulary_, embedding_of(model),
          model.tied_embeddings || model.mtp_layers > 0 ? Held::kBothEnds : Held::kFirstStage),
      embedding_norm_(make_embedding_norm(model, maker_)),
      encoder_(make_encoder(model, maker_, embedding_)),
      layers_(make_layers(kinds, maker_)),
      final_norm_(make_final_norm(model, maker_)),
      head_transform_(make_head_transform(model, maker_)),
      head_bias_(make_head_bias(model, vocabulary_, maker_)),
      head_(maker_, vocabulary_, model.tied_embeddings ? embedding_.token() : Param{},
            model.layer.logit_cap),
      mtp_(make_mtp(model, maker_)),
      tower_(make_tower(model, plan, maker_)),
      mtp_loss_(model.mtp_loss),
      has_experts_(std::any_of(kinds.begin(), kinds.end(),
                               [](const Kind& kind) { return kind.model.experts.has_value(); })),
      sees_both_ways_(model.layer.bidirectional),
      logit_scale_(logit_scale_of(model.layer, model.hidden)) {}

}  // namespace zplan
