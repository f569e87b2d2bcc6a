#include "planner/lower/layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/model_formulas.h"
#include "planner/lower/ranks.h"

namespace zplan {
namespace {

// Normal initialisation of GPT-2: 0.02, and 0.02 / sqrt(2 L) for the matrices that feed the
// residual stream [Radford19 sec 2.3]. Architecture llama: 0.02 throughout.
constexpr double kInitStd = 0.02;

struct Spec {
  Param param;
  std::string name;
  Shape shape;      // of one piece, as kernels see it: padded vocabulary, positions in training
  Shape published;  // as the model has it
  Init init;
  double std;
  bool decay;
  Split split;
  std::int32_t member = 0;  // which layer of a unit of several

  bool is_split() const { return split.kind != Split::Kind::kNone; }
};

// Flattens the tensors of a unit: what decays first, what is not split last.
int order_in_unit(const Spec& s) {
  if (s.decay) return 0;
  return s.is_split() ? 1 : 2;
}

class LayoutBuilder {
 public:
  LayoutBuilder(Layout& layout, const ModelConfig& model, const Plan& plan, const Mesh& mesh)
      : layout_(layout), model_(model), plan_(plan), mesh_(mesh), shards_(shard_axes(mesh)) {}

  void build() {
    const Shape table{layout_.padded_vocab, model_.hidden};
    unit("embedding", Part::kEmbedding, false,
         {vocabulary(Param::kTokenEmbedding,
                     is_llama() ? "model.embed_tokens.weight" : "transformer.wte.weight")});
    if (model_.position == Position::kLearned)
      unit("position", Part::kPosition, false,
           {{Param::kPositionEmbedding,
             is_llama() ? "model.embed_positions.weight" : "transformer.wpe.weight",
             {plan_.batch.sequence, model_.hidden},
             {model_.sequence, model_.hidden},
             Init::kNormal,
             kInitStd,
             true,
             {}}});
    layer_units();
    std::vector<Spec> norm;
    add_norm(norm, Param::kFinalNormGain, Param::kFinalNormBias,
             is_llama() ? "model.norm" : "transformer.ln_f");
    unit("final_norm", Part::kFinalNorm, false, std::move(norm));
    if (!layout_.tied)
      unit("head", Part::kHead, false, {vocabulary(Param::kHeadWeight, "lm_head.weight")});
  }

 private:
  std::int64_t pieces() const { return std::int64_t{plan_.parallel.tp} * plan_.tiles; }
  // Names and initialisation are of the family; what there is, of the features.
  bool is_llama() const { return model_.architecture == Architecture::kLlama; }
  bool tensor_parallel() const { return plan_.parallel.tp > 1; }
  std::string layer_name(const char* gpt, const char* llama) const {
    return is_llama() ? std::string("model.layers.{}.") + llama
                      : std::string("transformer.h.{}.") + gpt;
  }

  Spec vocabulary(Param param, std::string name) const {
    const std::int64_t rows = layout_.padded_vocab / plan_.parallel.tp;
    Spec s{param,
           std::move(name),
           {rows, model_.hidden},
           {model_.vocab, model_.hidden},
           Init::kNormal,
           kInitStd,
           true,
           {}};
    if (tensor_parallel()) s.split.kind = Split::Kind::kRows;
    return s;
  }
  Spec columns(Param param, std::string name, std::vector<std::int64_t> segments) const {
    std::int64_t width = 0;
    for (std::int64_t n : segments) width += n;
    Spec s{param,
           std::move(name),
           {model_.hidden, width / pieces()},
           {model_.hidden, width},
           Init::kNormal,
           kInitStd,
           true,
           {}};
    if (pieces() > 1) s.split = {Split::Kind::kColumns, std::move(segments)};
    return s;
  }
  Spec column_bias(Param param, std::string name, std::vector<std::int64_t> segments) const {
    Spec s = columns(param, std::move(name), std::move(segments));
    s.shape = {s.shape[1]};
    s.published = {s.published[1]};
    s.init = Init::kZero;
    s.decay = false;
    return s;
  }
  Spec rows(Param param, std::string name, std::int64_t n) const {
    const double depth = std::sqrt(2.0 * static_cast<double>(model_.layers));
    Spec s{param,
           std::move(name),
           {n / pieces(), model_.hidden},
           {n, model_.hidden},
           Init::kNormal,
           is_llama() ? kInitStd : kInitStd / depth,
           true,
           {}};
    if (pieces() > 1) s.split.kind = Split::Kind::kRows;
    return s;
  }
  Spec vector(Param param, std::string name, Init init) const {
    const Shape shape{model_.hidden};
    return {param, std::move(name), shape, shape, init, 0, false, {}};
  }
  void add_norm(std::vector<Spec>& to, Param gain, Param bias, const std::string& name) const {
    to.push_back(vector(gain, name + ".weight", Init::kOne));
    if (model_.norm == Norm::kLayerNorm) to.push_back(vector(bias, name + ".bias", Init::kZero));
  }

  // The four operators of a layer and what comes with each.
  struct Operator {
    std::vector<Spec> split, whole;
  };
  std::array<Operator, 4> operators() const {
    const ModelConfig& m = model_;
    const std::int64_t q = m.heads * m.head_size();
    const std::int64_t kv = m.kv_heads * m.head_size();
    const std::vector<std::int64_t> up(m.gated_mlp ? 2 : 1, m.ffn);
    std::array<Operator, 4> ops;
    const auto name = [&](const char* gpt, const char* llama, const char* what) {
      return layer_name(gpt, llama) + what;
    };
    ops[0].split = {columns(Param::kQkvWeight, name("attn.c_attn", "self_attn.qkv_proj", ".weight"),
                            {q, kv, kv})};
    ops[1].split = {
        rows(Param::kProjWeight, name("attn.c_proj", "self_attn.o_proj", ".weight"), q)};
    ops[2].split = {
        columns(Param::kFc1Weight, name("mlp.c_fc", "mlp.gate_up_proj", ".weight"), up)};
    ops[3].split = {rows(Param::kFc2Weight, name("mlp.c_proj", "mlp.down_proj", ".weight"), m.ffn)};
    add_norm(ops[0].whole, Param::kNorm1Gain, Param::kNorm1Bias,
             layer_name("ln_1", "input_layernorm"));
    add_norm(ops[2].whole, Param::kNorm2Gain, Param::kNorm2Bias,
             layer_name("ln_2", "post_attention_layernorm"));
    if (m.biases == Biases::kNone) return ops;
    ops[0].split.push_back(column_bias(
        Param::kQkvBias, name("attn.c_attn", "self_attn.qkv_proj", ".bias"), {q, kv, kv}));
    if (m.biases == Biases::kQkv) return ops;
    ops[1].whole = {
        vector(Param::kProjBias, name("attn.c_proj", "self_attn.o_proj", ".bias"), Init::kZero)};
    ops[2].split.push_back(
        column_bias(Param::kFc1Bias, name("mlp.c_fc", "mlp.gate_up_proj", ".bias"), up));
    ops[3].whole = {
        vector(Param::kFc2Bias, name("mlp.c_proj", "mlp.down_proj", ".bias"), Init::kZero)};
    return ops;
  }

  std::vector<Spec> for_each_member(const std::vector<Spec>& layer) const {
    std::vector<Spec> all;
    for (std::int32_t member = 0; member < plan_.unit_layers; ++member)
      for (const Spec& s : layer) all.emplace_back(s).member = member;
    return all;
  }

  void layer_units() {
    constexpr std::array<Part, 4> kParts{Part::kQkv, Part::kProjection, Part::kFc1, Part::kFc2};
    constexpr std::array<const char*, 4> kNames{"layer.qkv", "layer.proj", "layer.fc1",
                                                "layer.fc2"};
    std::vector<Spec> all, shared;
    const bool tiled = plan_.tiles > 1;
    const bool whole_layer = plan_.gather == GatherUnit::kLayer;
    std::array<Operator, 4> ops = operators();
    for (Operator& op : ops) {
      std::vector<Spec>& to = whole_layer ? all : tiled ? shared : op.split;
      to.insert(to.end(), op.whole.begin(), op.whole.end());
      if (whole_layer) all.insert(all.end(), op.split.begin(), op.split.end());
    }
    if (whole_layer) {
      unit("layer", Part::kLayer, true, for_each_member(all));
      return;
    }
    if (tiled) unit("layer.shared", Part::kShared, true, std::move(shared));
    for (std::size_t i = 0; i < ops.size(); ++i)
      unit(kNames[i], kParts[i], true, std::move(ops[i].split), plan_.tiles);
  }

  void unit(const std::string& name, Part part, bool per_layer, std::vector<Spec> specs,
            std::int32_t tiles = 1) {
    const bool by_layer = plan_.owners && per_layer;
    std::stable_sort(specs.begin(), specs.end(), [by_layer](const Spec& a, const Spec& b) {
      if (by_layer && a.member != b.member) return a.member < b.member;
      return order_in_unit(a) < order_in_unit(b);
    });
    const auto index = static_cast<UnitIndex>(layout_.units.size());
    Unit unit;
    unit.name = name;
    unit.per_layer = per_layer;
    unit.tiles = tiles;
    std::int64_t offset = 0, layer_from = 0;  // the latter: of the layer at hand, if it is owned
    std::int32_t layer = 0;
    std::int64_t shared_from = -1;
    for (const Spec& s : specs) {
      if (by_layer && s.member != std::exchange(layer, s.member))
        layer_from = offset = round_up(offset, kShardAlignment);
      const std::int64_t own =
          s.is_split() ? ceil_div(s.published.elements(), std::int64_t{plan_.parallel.tp} * tiles)
                       : s.published.elements();
      if (!s.is_split() && tensor_parallel()) {
        if (shared_from < 0) shared_from = offset;
        unit.shared_elements += own;
      }
      layout_.places[static_cast<std::size_t>(s.member)][static_cast<std::size_t>(s.param)] = {
          index, offset - layer_from, s.shape};
      unit.tensors.push_back({s.name, s.published, s.init, s.std, s.decay, offset, s.split,
                              s.split.kind == Split::Kind::kRows ? s.shape[0] : 0, s.member});
      unit.elements += own;
      offset += std::max(s.shape.elements(), s.is_split() ? 0 : own);
      if (s.decay && layer_from == 0) unit.decay_elements = offset;
    }
    unit.shared_from = shared_from < 0 ? offset : shared_from;
    const std::int64_t shards = mesh_.size(shards_);
    unit.shards = shards_;
    unit.shard_elements = round_up(ceil_div(offset, shards), kShardAlignment);
    unit.flat_elements = unit.shard_elements * shards;
    layout_.units.push_back(std::move(unit));
    layout_.part.push_back(part);
    if (per_layer) layout_.layer_units.push_back(index);
  }

  Layout& layout_;
  const ModelConfig& model_;
  const Plan& plan_;
  const Mesh& mesh_;
  AxisSet shards_;  // that the states of every unit are cut over
};

}  // namespace

std::int64_t Layout::gathered_elements(UnitIndex unit) const {
  return is_owned(unit) ? units[unit].shard_elements : units[unit].flat_elements;
}

std::int64_t Layout::touched_elements(UnitIndex unit) const {
  std::int64_t sum = 0;
  for (const Places& of_layer : places)
    for (const ParamPlace& p : of_layer)
      if (p.unit == unit && p.shape.rank > 0) sum += p.shape.elements();
  return is_owned(unit) ? sum / static_cast<std::int64_t>(places.size()) : sum;
}

std::int64_t Layout::largest_layer_unit() const {
  std::int64_t largest = 0;
  for (UnitIndex u : layer_units)
    if (!is_shared(u)) largest = std::max(largest, gathered_elements(u));
  return largest;
}

std::int64_t Layout::largest_shard() const {
  std::int64_t largest = 0;
  for (const Unit& u : units) largest = std::max(largest, u.shard_elements);
  return largest;
}

Layout make_layout(const ModelConfig& model, const Plan& plan, const Mesh& mesh) {
  Layout layout;
  layout.places.resize(static_cast<std::size_t>(plan.unit_layers));
  layout.tied = model.tied_embeddings;
  layout.owners = plan.owners;
  layout.padded_vocab = padded_vocab(model, plan.parallel.tp);
  LayoutBuilder(layout, model, plan, mesh).build();
  return layout;
}

}  // namespace zplan
