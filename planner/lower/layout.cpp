#include "planner/lower/layout.h"

#include <algorithm>
#include <cmath>

#include "models/model_formulas.h"

namespace zplan {
namespace {

// Normal initialisation of GPT-2: 0.02, and 0.02 / sqrt(2 L) for the matrices that feed the
// residual stream [Radford19 sec 2.3].
constexpr double kInitStd = 0.02;

struct Spec {
  Param param;
  const char* name;
  Shape shape;      // as kernels see it: padded vocabulary, positions of the training sequence
  Shape published;  // as the model has it
  Init init;
  double std;
  bool decay;
};

Spec matrix(Param param, const char* name, Shape shape, double std) {
  return {param, name, shape, shape, Init::kNormal, std, true};
}
Spec vector(Param param, const char* name, std::int64_t n, Init init) {
  return {param, name, {n}, {n}, init, 0, false};
}

class LayoutBuilder {
 public:
  LayoutBuilder(Layout& layout, std::int64_t shards) : layout_(layout), shards_(shards) {}

  // Flattens the tensors in the order given: matrices before vectors.
  UnitIndex unit(const std::string& name, Part part, bool per_layer, std::vector<Spec> specs) {
    std::stable_partition(specs.begin(), specs.end(), [](const Spec& s) { return s.decay; });
    const auto index = static_cast<UnitIndex>(layout_.units.size());
    Unit unit;
    unit.name = name;
    unit.per_layer = per_layer;
    std::int64_t offset = 0;
    for (const Spec& s : specs) {
      layout_.place[static_cast<std::size_t>(s.param)] = {index, offset, s.shape};
      unit.tensors.push_back({s.name, s.published, s.init, s.std, s.decay, offset});
      unit.elements += s.published.elements();
      offset += std::max(s.shape.elements(), s.published.elements());
      if (s.decay) unit.decay_elements = offset;
    }
    unit.shard_elements = round_up(ceil_div(offset, shards_), kShardAlignment);
    unit.flat_elements = unit.shard_elements * shards_;
    layout_.units.push_back(std::move(unit));
    layout_.part.push_back(part);
    if (per_layer) layout_.layer_units.push_back(index);
    return index;
  }

 private:
  Layout& layout_;
  std::int64_t shards_;
};

std::vector<std::vector<Spec>> layer_operators(const ModelConfig& m) {
  const std::int64_t h = m.hidden;
  const std::int64_t f = m.ffn;
  const double residual_std = kInitStd / std::sqrt(2.0 * static_cast<double>(m.layers));
  return {
      {matrix(Param::kQkvWeight, "transformer.h.{}.attn.c_attn.weight", {h, 3 * h}, kInitStd),
       vector(Param::kNorm1Gain, "transformer.h.{}.ln_1.weight", h, Init::kOne),
       vector(Param::kNorm1Bias, "transformer.h.{}.ln_1.bias", h, Init::kZero),
       vector(Param::kQkvBias, "transformer.h.{}.attn.c_attn.bias", 3 * h, Init::kZero)},
      {matrix(Param::kProjWeight, "transformer.h.{}.attn.c_proj.weight", {h, h}, residual_std),
       vector(Param::kProjBias, "transformer.h.{}.attn.c_proj.bias", h, Init::kZero)},
      {matrix(Param::kFc1Weight, "transformer.h.{}.mlp.c_fc.weight", {h, f}, kInitStd),
       vector(Param::kNorm2Gain, "transformer.h.{}.ln_2.weight", h, Init::kOne),
       vector(Param::kNorm2Bias, "transformer.h.{}.ln_2.bias", h, Init::kZero),
       vector(Param::kFc1Bias, "transformer.h.{}.mlp.c_fc.bias", f, Init::kZero)},
      {matrix(Param::kFc2Weight, "transformer.h.{}.mlp.c_proj.weight", {f, h}, residual_std),
       vector(Param::kFc2Bias, "transformer.h.{}.mlp.c_proj.bias", h, Init::kZero)},
  };
}

void add_layer_units(LayoutBuilder& builder, const ModelConfig& model, GatherUnit gather) {
  std::vector<std::vector<Spec>> operators = layer_operators(model);
  if (gather == GatherUnit::kLayer) {
    std::vector<Spec> all;
    for (auto& op : operators) all.insert(all.end(), op.begin(), op.end());
    builder.unit("layer", Part::kLayer, true, std::move(all));
    return;
  }
  builder.unit("layer.qkv", Part::kQkv, true, std::move(operators[0]));
  builder.unit("layer.proj", Part::kProjection, true, std::move(operators[1]));
  builder.unit("layer.fc1", Part::kFc1, true, std::move(operators[2]));
  builder.unit("layer.fc2", Part::kFc2, true, std::move(operators[3]));
}

}  // namespace

std::int64_t Layout::touched_elements(UnitIndex unit) const {
  std::int64_t sum = 0;
  for (const ParamPlace& p : place)
    if (p.unit == unit && p.shape.rank > 0) sum += p.shape.elements();
  return sum;
}

std::int64_t Layout::largest_layer_unit() const {
  std::int64_t largest = 0;
  for (UnitIndex u : layer_units) largest = std::max(largest, units[u].flat_elements);
  return largest;
}

std::int64_t Layout::largest_shard() const {
  std::int64_t largest = 0;
  for (const Unit& u : units) largest = std::max(largest, u.shard_elements);
  return largest;
}

Layout make_layout(const ModelConfig& model, const Plan& plan) {
  Layout layout;
  layout.tied = model.tied_embeddings;
  layout.padded_vocab = padded_vocab(model, 1);
  const std::int64_t h = model.hidden;
  const Shape table{layout.padded_vocab, h};
  const Shape published{model.vocab, h};
  LayoutBuilder builder(layout, plan.parallel.dp);
  builder.unit("embedding", Part::kEmbedding, false,
               {{Param::kTokenEmbedding, "transformer.wte.weight", table, published, Init::kNormal,
                 kInitStd, true}});
  builder.unit("position", Part::kPosition, false,
               {{Param::kPositionEmbedding,
                 "transformer.wpe.weight",
                 {plan.batch.sequence, h},
                 {model.sequence, h},
                 Init::kNormal,
                 kInitStd,
                 true}});
  add_layer_units(builder, model, plan.gather);
  builder.unit("final_norm", Part::kFinalNorm, false,
               {vector(Param::kFinalNormGain, "transformer.ln_f.weight", h, Init::kOne),
                vector(Param::kFinalNormBias, "transformer.ln_f.bias", h, Init::kZero)});
  if (!layout.tied)
    builder.unit(
        "head", Part::kHead, false,
        {{Param::kHeadWeight, "lm_head.weight", table, published, Init::kNormal, kInitStd, true}});
  return layout;
}

}  // namespace zplan
