#include "planner/lower/blocks/decoder.h"

#include <algorithm>

#include "models/model_formulas.h"
#include "planner/lower/blocks/attention.h"
#include "planner/lower/blocks/experts.h"
#include "planner/lower/blocks/latent_attention.h"
#include "planner/lower/blocks/mlp.h"

namespace zplan {
namespace {

AttentionShape attention_of(const ModelConfig& model) {
  AttentionShape shape{.heads = {model.heads, model.kv_heads, model.head_size()}};
  shape.qk_norm = model.qk_norm;
  if (model.position == Position::kRope) shape.rope.emplace(model.rope_theta);
  shape.qkv_bias = model.biases != Biases::kNone;
  shape.projection_bias = model.biases == Biases::kAll;
  return shape;
}

std::unique_ptr<Body> make_attention(LayerMaker& maker, const ModelConfig& model) {
  if (model.latent) return std::make_unique<LatentAttention>(maker, model);
  return std::make_unique<SelfAttention>(maker, attention_of(model));
}

MlpShape mlp_of(const ModelConfig& model) {
  return {model.ffn, model.gated_mlp, model.biases == Biases::kAll};
}

// The MLP or, of all tokens by their choices, experts.
std::unique_ptr<Body> make_mlp(LayerMaker& maker, const ModelConfig& model) {
  if (model.experts) return std::make_unique<Experts>(maker, *model.experts, model.gated_mlp);
  return std::make_unique<Mlp>(maker, mlp_of(model));
}

// Attention, then the MLP. An operator begins with the norm before its product. The masks of
// dropout lie side by side.
LayerKind make_layer(const std::string& name, const LayerRange& layers, const ModelConfig& model,
                     const Maker& maker) {
  LayerKind layer{name, layers, {}, {}};
  maker.params.begin_kind(layer.name, layers);
  LayerMaker m{maker, layer.values};
  m.params.begin("qkv", Part::kQkv);
  BranchNorm norm1(m, model.norm, Part::kAttentionNorm, "norm1", "1");
  auto attention = make_attention(m, model);
  const Value middle = m.values.add({.name = "middle",
                                     .shape = {m.local_tokens(), m.h()},
                                     .dtype = m.compute(),
                                     .of = LayerOperator::kProjection});
  Residual sum1(m, Part::kAttentionResidual, LayerOperator::kProjection, "mask1");
  Residual sum2(m, Part::kMlpResidual, std::nullopt, "mask2");
  m.params.begin(model.experts ? "router" : "fc1", model.experts ? Part::kRouter : Part::kFc1);
  BranchNorm norm2(m, model.norm, Part::kMlpNorm, "norm2", "2");
  auto mlp = make_mlp(m, model);
  layer.branches.emplace_back(norm1, std::move(attention), sum1, middle);
  layer.branches.emplace_back(norm2, std::move(mlp), sum2, Value{});
  return layer;
}

NormBlock make_final_norm(const ModelConfig& model, Maker& maker) {
  maker.params.begin("final_norm", Part::kFinalNorm, Held::kLastStage);
  return {maker, model.norm, Part::kFinalNorm, "final_norm", model.hidden};
}

}  // namespace

std::vector<LayerKind> Decoder::make_layers(const std::vector<Kind>& kinds, const Maker& maker) {
  std::vector<LayerKind> layers;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    layers.push_back(make_layer(kinds.size() == 1 ? "layer" : "layer" + std::to_string(i),
                                kinds[i].layers, kinds[i].model, maker));
  return layers;
}

std::vector<Decoder::Kind> Decoder::kinds_of(const ModelConfig& model) {
  const auto dense = static_cast<std::int32_t>(model.dense_layers());
  if (dense == 0) return {{model}};
  const auto others = static_cast<std::int32_t>(model.layers) - dense;
  return {{dense_layer_of(model), {0, dense}}, {model, {dense, others}}};
}

Decoder::Decoder(const ModelConfig& model, const Plan& plan, const KernelSet& kernels)
    : Decoder(model, kinds_of(model), plan, kernels) {}

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
      maker_{{plan, kernels, model.hidden, model.layers, plan.rank_sequence()},
             Naming(model),
             params_},
      vocabulary_{model.vocab, padded_vocab(model, plan.parallel.tp)},
      embedding_(maker_, vocabulary_, model.positions(),
                 model.tied_embeddings ? Held::kBothEnds : Held::kFirstStage),
      layers_(make_layers(kinds, maker_)),
      final_norm_(make_final_norm(model, maker_)),
      head_(maker_, vocabulary_, model.tied_embeddings ? embedding_.token() : Param{}),
      has_experts_(std::any_of(kinds.begin(), kinds.end(),
                               [](const Kind& kind) { return kind.model.experts.has_value(); })) {}

}  // namespace zplan
