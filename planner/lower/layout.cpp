#include "planner/lower/layout.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "planner/core/error.h"
#include "planner/lower/ranks.h"
#include "planner/program/job/piece_axes.h"

namespace zplan {
namespace {

struct Member {
  Param param;
  const ParamSpec* spec;
  std::int64_t pieces;     // that the ranks and tiles cut it into, after
  std::int64_t blocks;     // those that ranks with other experts have
  bool alike;              // whether tensor parallel ranks and tiles have the same of it
  std::int32_t layer = 0;  // of a unit of several
};

// What a unit says of its parameters besides its members.
struct UnitKind {
  std::string name;
  Part part;
  Held held = Held::kByLayer;
  LayerRange layers{};  // that have it; none: all
  UpdateRule rule{};
  std::int32_t tiles = 1;
  bool experts = false;  // of which ranks have others
};

// Flattens the tensors of a unit: what decays first, of that and of the others what is not split
// last, and of that what is summed over ranks first.
int order_in_unit(const Member& m) {
  return (m.spec->decay ? 0 : 3) + (!m.alike ? 0 : m.spec->summed ? 1 : 2);
}

// A matrix may be cut by columns or rows, a vector as the columns that it is added to.
Shape piece_shape(const Member& m) {
  Shape shape = m.spec->stored;
  const bool rows = m.spec->split.kind == Split::Kind::kRows;
  const auto last = static_cast<std::size_t>(shape.rank - 1);
  shape.dims[rows ? 0 : m.spec->cut_dimension.value_or(last)] /= m.pieces;
  shape.dims[0] /= m.blocks;
  return shape;
}

class LayoutBuilder {
 public:
  LayoutBuilder(Layout& layout, const ParamTable& params, const Plan& plan, const Mesh& mesh)
      : layout_(layout),
        params_(params),
        plan_(plan),
        mesh_(mesh),
        shards_(shard_axes(mesh)),
        experts_(expert_axes(plan, mesh)) {}

  void build() {
    bool has_layers = false;
    for (const Operator& op : params_.operators()) {
      if (op.part == Part::kHead) layout_.has_head = true;
      if (op.held != Held::kByLayer) {
        auto [own, whole] = members(op);
        own.insert(own.end(), whole.begin(), whole.end());
        unit({.name = op.name,
              .part = op.part,
              .held = op.held,
              .rule = rules().others,
              .tiles = tiles_of(op)},
             std::move(own));
      } else if (!std::exchange(has_layers, true)) {
        plan_.gather.by_layer() ? units_of_layers() : units_of_operators();
      }
    }
  }

 private:
  bool tensor_parallel() const { return plan_.parallel.tp > 1; }
  const OptimizerRow& rules() const { return plan_.optimizer.row(); }
  // Whether a unit beside the others of a layer has what they do not have.
  bool has_shared() const {
    return plan_.gather.tiles() > 1 || rules().has_two_rules() || plan_.train.has_lora();
  }
  bool is_shared(const ParamSpec& spec) const {
    if (plan_.train.has_lora()) return spec.is_trained;
    const bool is_cut = spec.split.kind != Split::Kind::kNone;
    return has_shared() &&
           !(is_cut && ((spec.decay && spec.is_matrix) || !rules().has_two_rules()));
  }

  // Returns whether the unit of what is frozen and has no codes has this parameter.
  bool is_plain(const ParamSpec& spec) const {
    return plan_.train.has_codes() && !spec.is_trained && !spec.is_coded;
  }

  // What the names of a kind's units begin with. Those of layers with one checkpoint are told
  // apart.
  std::string prefix(const std::string& kind, std::int32_t layer) const {
    return plan_.checkpoint_layers > 1 ? kind + "." + std::to_string(layer) : kind;
  }

  // A layer of an iteration and its kind: kinds take turns, or the iterations of each are its own.
  struct Turn {
    std::int32_t layer;
    std::size_t kind;
  };
  std::vector<Turn> turns() const {
    std::vector<Turn> all;
    const std::size_t kinds = params_.kinds().size();
    for (std::int32_t layer = 0; layer < layout_.layers_together(); ++layer)
      if (params_.kinds_take_turns())
        all.push_back({layer, static_cast<std::size_t>(layer) % kinds});
    for (std::size_t kind = 0; kind < kinds && !params_.kinds_take_turns(); ++kind)
      all.push_back({0, kind});
    return all;
  }
  std::vector<Operator> operators_of(std::size_t kind) const {
    std::vector<Operator> own;
    for (const Operator& op : params_.operators())
      if (op.held == Held::kByLayer && op.kind == kind) own.push_back(op);
    return own;
  }

  std::int32_t tiles_of(const Operator& op) const {
    return op.held == Held::kByLayer ? plan_.gather.tiles() : params_.spec(op.params.front()).tiles;
  }

  // Of an operator: what its own unit holds, that which can be cut first.
  struct Members {
    std::vector<Member> cut, whole;
  };
  Member member(const Operator& op, Param p, std::int64_t tiles, std::int32_t layer) const {
    const ParamSpec& spec = params_.spec(p);
    const AxisSet others = op.experts ? experts_ : AxisSet{};
    const std::int64_t blocks = mesh_.size(others);
    const std::int64_t ranks = mesh_.size(piece_axes(mesh_, others));
    const bool is_cut = spec.split.kind != Split::Kind::kNone;
    const std::int64_t pieces = is_cut ? ranks * tiles : 1;
    const bool are_others = op.experts && plan_.parallel.folds_experts();  // their experts
    return {p, &spec, pieces, blocks, pieces == 1 && !are_others, layer};
  }
  Members members(const Operator& op, std::int32_t layer = 0) const {
    Members result;
    for (const Param p : op.params) {
      const ParamSpec& spec = params_.spec(p);
      if (op.held == Held::kByLayer && (is_shared(spec) || is_plain(spec))) continue;
      const bool is_cut = spec.split.kind != Split::Kind::kNone;
      (is_cut ? result.cut : result.whole).push_back(member(op, p, tiles_of(op), layer));
    }
    return result;
  }

  // The units beside the others of a layer.
  void shared_units(const std::vector<Operator>& operators, std::int32_t layer, std::size_t kind) {
    if (!has_shared()) return;
    std::vector<Member> all, of_experts, plain;
    for (const Operator& op : operators)
      for (const Param p : op.params) {
        if (is_shared(params_.spec(p)))
          (has_own_ranks(op) ? of_experts : all).push_back(member(op, p, 1, layer));
        if (is_plain(params_.spec(p))) plain.push_back(member(op, p, 1, layer));
      }
    const auto& [name, layers] = params_.kinds()[kind];
    const bool of_several = plan_.unit_layers() > 1 && plan_.checkpoint_layers == 1;
    const std::string own = prefix(name, layer) + (of_several ? std::to_string(layer) : "");
    if (!all.empty())
      unit({.name = own + ".shared",
            .part = Part::kShared,
            .layers = layers,
            .rule = rules().others},
           std::move(all));
    if (!of_experts.empty())
      unit({.name = own + ".expert_factors",
            .part = Part::kExpertFactors,
            .layers = layers,
            .rule = rules().others,
            .experts = true},
           std::move(of_experts));
    if (!plain.empty())
      unit({.name = own + ".plain", .part = Part::kPlain, .layers = layers, .rule = rules().others},
           std::move(plain));
  }

  void units_of_layers() {
    std::vector<Member> all, experts, behind;  // the latter: that layers use after their experts
    for (const auto& [layer, kind] : turns()) {
      const std::vector<Operator> operators = operators_of(kind);
      shared_units(operators, layer, kind);
      bool after_experts = false;
      for (const Operator& op : operators) {
        const auto [cut, whole] = members(op, layer);
        after_experts = after_experts || has_own_ranks(op);
        std::vector<Member>& own = has_own_ranks(op) ? experts : after_experts ? behind : all;
        own.insert(own.end(), whole.begin(), whole.end());
        own.insert(own.end(), cut.begin(), cut.end());
      }
      if ((layer + 1) % plan_.unit_layers() != 0) continue;
      const auto& [kind_name, layers] = params_.kinds()[kind];
      const std::string name = prefix(kind_name, layer);
      if (!all.empty())
        unit({.name = name, .part = Part::kLayer, .layers = layers, .rule = rules().matrices},
             std::exchange(all, {}));
      if (!experts.empty())
        unit({.name = name + ".experts",
              .part = Part::kExpertUp,
              .layers = layers,
              .rule = rules().matrices,
              .experts = true},
             std::exchange(experts, {}));
      if (!behind.empty())
        unit({.name = name + ".behind",
              .part = Part::kLatentOut,
              .layers = layers,
              .rule = rules().matrices},
             std::exchange(behind, {}));
    }
  }

  void units_of_operators() {
    for (const auto& [layer, kind] : turns()) {
      const auto& [name, layers] = params_.kinds()[kind];
      const std::vector<Operator> operators = operators_of(kind);
      shared_units(operators, layer, kind);
      for (const Operator& op : operators) {
        auto [own, whole] = members(op, layer);
        own.insert(own.end(), whole.begin(), whole.end());
        if (own.empty()) continue;  // all of it is beside
        unit({.name = prefix(name, layer) + "." + op.name,
              .part = op.part,
              .layers = layers,
              .rule = rules().matrices,
              .tiles = plan_.gather.tiles(),
              .experts = has_own_ranks(op)},
             std::move(own));
      }
    }
  }

  bool has_own_ranks(const Operator& op) const { return op.experts && !experts_.empty(); }

  // Elements that shards are multiples of.
  std::int64_t alignment(const UpdateRule& rule, bool coded) const {
    if (coded) return std::max<std::int64_t>(kShardAlignment, code_alignment());
    return rule.in_blocks ? std::max<std::int64_t>(kShardAlignment, plan_.optimizer.block)
                          : kShardAlignment;
  }
  // Elements that tensors of codes begin at multiples of, so that blocks do not depend on units.
  std::int64_t code_alignment() const {
    return plan_.train.has_scale_codes() ? kConstantBlock : kCodeBlock;
  }

  void unit(const UnitKind& kind, std::vector<Member> members) {
    const bool by_layer = plan_.gather.owned() && kind.held == Held::kByLayer;
    std::stable_sort(members.begin(), members.end(), [by_layer](const Member& a, const Member& b) {
      if (by_layer && a.layer != b.layer) return a.layer < b.layer;
      return order_in_unit(a) < order_in_unit(b);
    });
    const auto index = static_cast<UnitIndex>(layout_.units.size());
    const bool is_trained = members.front().spec->is_trained;
    const bool is_coded = members.front().spec->is_coded;
    Unit unit;
    unit.name = kind.name;
    unit.per_layer = kind.held == Held::kByLayer;
    unit.layers = kind.layers;
    unit.tiles = kind.tiles;
    if (kind.experts) unit.experts = experts_;
    std::int64_t offset = 0, layer_from = 0;  // the latter: of the layer at hand, if it is owned
    std::int32_t layer = 0;
    std::int64_t shared_from = -1, summed = 0;
    std::vector<BalancedBias>& balanced = layout_.balanced.emplace_back();
    for (const Member& m : members) {
      const ParamSpec& spec = *m.spec;
      ZPLAN_ASSERT(spec.is_trained == is_trained);
      if (by_layer && m.layer != std::exchange(layer, m.layer))
        layer_from = offset = round_up(offset, kShardAlignment);
      if (is_coded) offset = round_up(offset, code_alignment());
      const std::int64_t own = ceil_div(spec.published.elements(), m.pieces * m.blocks);
      if (m.alike && tensor_parallel()) {
        if (shared_from < 0) shared_from = offset;
        unit.shared_elements += own;
        if (spec.summed) summed += own;
      }
      ZPLAN_ASSERT(m.alike || shared_from < 0);  // what is shared is contiguous
      ZPLAN_ASSERT(!kind.rule.in_blocks || offset % plan_.optimizer.block == 0);
      const Shape shape = piece_shape(m);
      layout_.places[static_cast<std::size_t>(m.layer)][m.param.index()] = {
          index, offset - layer_from, shape};
      const Split split = m.pieces * m.blocks > 1 ? spec.split : Split{};
      unit.tensors.push_back({spec.name, spec.published, spec.init, spec.std, spec.decay, offset,
                              split, split.kind == Split::Kind::kRows ? shape[0] : 0, m.layer,
                              m.blocks});
      if (spec.balance_rate > 0 && is_trained)
        balanced.push_back({offset, own, spec.balance_rate, m.layer});
      unit.elements += own;
      offset += std::max(shape.elements(), m.alike ? own : 0);
      if (spec.decay && layer_from == 0) unit.decay_elements = offset;
    }
    unit.shared_from = shared_from < 0 ? offset : shared_from;
    unit.shards = shards_ - unit.experts;
    const std::int64_t shards = mesh_.size(unit.shards);
    unit.shard_elements = round_up(ceil_div(offset, shards), alignment(kind.rule, is_coded));
    unit.flat_elements = unit.shard_elements * shards;
    layout_.expert_ranks.push_back(mesh_.size(shards_) / mesh_.size(unit.shards));
    layout_.part.push_back(kind.part);
    layout_.held.push_back(kind.held);
    layout_.rule.push_back(kind.rule);
    layout_.trained.push_back(is_trained);
    layout_.coded.push_back(is_coded);
    layout_.summed_elements.push_back(summed);
    if (unit.per_layer) layout_.layer_units.push_back(index);
    layout_.units.push_back(std::move(unit));
  }

  Layout& layout_;
  const ParamTable& params_;
  const Plan& plan_;
  const Mesh& mesh_;
  AxisSet shards_;   // that the states of every unit are cut over, but for those of
  AxisSet experts_;  // experts, along which ranks have others
};

}  // namespace

const ParamPlace& Layout::of(Param p, std::int32_t member) const {
  const ParamPlace& own = places[static_cast<std::size_t>(member)][p.index()];
  if (own.shape.rank > 0) return own;
  for (const Places& of_layer : places)
    if (of_layer[p.index()].shape.rank > 0) return of_layer[p.index()];
  ZPLAN_ASSERT(false);
}

bool Layout::has(Part part, std::int32_t member) const {
  const Places& own = places[static_cast<std::size_t>(member)];
  return std::any_of(own.begin(), own.end(), [&](const ParamPlace& p) {
    return p.shape.rank > 0 && this->part[p.unit] == part;
  });
}

std::vector<ParamPlace> Layout::matrices_of(UnitIndex unit) const {
  std::vector<ParamPlace> matrices;
  for (const Places& of_layer : places)
    for (const ParamPlace& p : of_layer) {
      if (p.unit != unit || p.shape.rank == 0) continue;
      const Shape& shape = p.shape;
      ZPLAN_ASSERT(shape.rank == 2 || shape.rank == 3);
      const Shape matrix{shape.dims[shape.rank - 2], shape.dims[shape.rank - 1]};
      for (std::int64_t at = 0; at < shape.elements(); at += matrix.elements())
        matrices.push_back({unit, p.offset + at, matrix});
    }
  std::ranges::sort(matrices, {}, &ParamPlace::offset);
  return matrices;
}

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
    if (is_in_ring(u)) largest = std::max(largest, gathered_elements(u));
  return largest;
}

std::int64_t Layout::largest_shard() const {
  std::int64_t largest = 0;
  for (const Unit& u : units) largest = std::max(largest, u.shard_elements);
  return largest;
}

Layout make_layout(const ParamTable& params, const Plan& plan, const Mesh& mesh) {
  Layout layout;
  const std::size_t turns = params.kinds_take_turns() ? params.kinds().size() : 1;
  const std::size_t together =
      std::lcm(turns, std::lcm(plan.unit_layers(), plan.checkpoint_layers));
  layout.places.assign(together, Layout::Places(params.size()));
  layout.owned = plan.gather.owned();
  LayoutBuilder(layout, params, plan, mesh).build();
  return layout;
}

}  // namespace zplan
