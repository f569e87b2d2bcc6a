#include "planner/program/instances/edges.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "planner/program/instances/thin_edges.h"
#include "planner/program/job/tree.h"

namespace zplan {
namespace {

struct Use {
  NodeIndex node;
  const View* view;
};

constexpr std::int32_t kNobody = -1;

// Whether two views share bytes of a slot on some rank; true where that depends on the rank.
bool bytes_overlap(const View& a, const View& b) {
  if (a.strides != b.strides) return true;
  return a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
}

void scale(SlotExpr& slot, Var var, std::int32_t by) {
  if (var == Var::kMicro) slot.per_micro *= by;
  if (var == Var::kLayer) slot.per_layer *= by;
  if (var == Var::kTile) slot.per_tile *= by;
}

// Whether two edges differ in their nodes alone.
bool is_alike(const Edge& a, const Edge& b) {
  return a.level == b.level && a.delta == b.delta && a.match == b.match &&
         a.from_depth == b.from_depth && a.reuse == b.reuse;
}

class EdgeDeriver {
 public:
  explicit EdgeDeriver(Program& program) : p_(program), edges_(program.nodes.size()) {}

  void keep_existing() {
    for (std::size_t n = 0; n < p_.nodes.size(); ++n) {
      const auto after = p_.after(p_.nodes[n]);
      edges_[n].assign(after.begin(), after.end());
    }
  }

  // Both orders of a pair whose views may touch the same bytes; `slots` is 0 when they belong to
  // different buffers, where nothing is known about which slot meets which.
  void order(const Use& a, const Use& b, std::int32_t slots) {
    if (a.node == b.node || p_.nodes[a.node].lane == p_.nodes[b.node].lane) return;
    const bool a_first = a.node < b.node;
    forward(a_first ? b : a, a_first ? a : b, slots);
    wrap(a_first ? a : b, a_first ? b : a, slots);
  }

  void finish(bool reuse, ImpliedEdges implied) {
    for (auto& list : edges_) reduce(list);
    if (implied == ImpliedEdges::kLeftOut) thin_edges(p_, edges_, reuse);
    set_edges(p_, edges_);
  }

 private:
  // x waits for the earlier y of the same iteration of their common block.
  void forward(const Use& x, const Use& y, std::int32_t slots) {
    const BlockIndex common = common_ancestor(p_, p_.nodes[x.node].block, p_.nodes[y.node].block);
    const std::int32_t level = p_.blocks[common].depth;
    if (const auto slot_pair = seen_from(common, x, y, slots)) {
      const std::optional<std::int32_t> delta = distance(common, *slot_pair, slots, 0);
      if (delta) add(x.node, {.node = y.node, .level = level, .delta = *delta}, slots == 0);
      if (delta != 0) outer_iterations(x, y, common, slots);
      return;
    }
    add(x.node, matched(x, y, level, 0, slots), slots == 0);
  }

  // x waits for the y that follows it in program order, of an earlier iteration of a common block.
  void wrap(const Use& x, const Use& y, std::int32_t slots) {
    const BlockIndex common = common_ancestor(p_, p_.nodes[x.node].block, p_.nodes[y.node].block);
    earlier_iteration(x, y, common, slots);
    outer_iterations(x, y, common, slots);
  }

  // The blocks around `common`: their previous iterations, for the first ones of `common`.
  void outer_iterations(const Use& x, const Use& y, BlockIndex common, std::int32_t slots) {
    while (common != 0) {
      common = p_.blocks[common].parent;
      earlier_iteration(x, y, common, slots);
    }
  }

  // x waits for the y of an earlier iteration of a block around both.
  void earlier_iteration(const Use& x, const Use& y, BlockIndex around, std::int32_t slots) {
    const Block& block = p_.blocks[around];
    if (around != 0 && block.count == 1) return;
    if (const auto slot_pair = seen_from(around, x, y, slots)) {
      const std::optional<std::int32_t> delta = distance(around, *slot_pair, slots, 1);
      if (delta) add(x.node, {.node = y.node, .level = block.depth, .delta = *delta}, slots == 0);
      return;
    }
    add(x.node, matched(x, y, block.depth, 1, slots), slots == 0);
  }

  // Of two uses in blocks that run once per iteration of a block around both: their slots by the
  // variables of that block.
  struct SlotPair {
    SlotExpr x, y;
  };
  std::optional<SlotPair> seen_from(BlockIndex around, const Use& x, const Use& y,
                                    std::int32_t slots) const {
    const auto sx = seen_from(around, x, slots), sy = seen_from(around, y, slots);
    return sx && sy ? std::optional(SlotPair{*sx, *sy}) : std::nullopt;
  }
  std::optional<SlotExpr> seen_from(BlockIndex around, const Use& use, std::int32_t slots) const {
    SlotExpr slot = use.view->slot;
    for (BlockIndex b = p_.nodes[use.node].block; b != around; b = p_.blocks[b].parent) {
      const Block& block = p_.blocks[b];
      if (block.count != 1) return std::nullopt;
      if (slots <= 1 || block.var == Var::kNone) continue;
      slot.base =
          static_cast<std::int32_t>((slot.base + factor_of(slot, block.var) * block.first) % slots);
      if (!block.relative) scale(slot, block.var, 0);
      if (block.mirrored) scale(slot, block.var, -1);
    }
    return slot;
  }

  // Least iteration distance >= least of a block at which both meet in one slot. The step is no
  // variable, so at the root every distance meets.
  std::optional<std::int32_t> distance(BlockIndex around, const SlotPair& slot_pair,
                                       std::int32_t slots, std::int32_t least) const {
    const Block& block = p_.blocks[around];
    if (slots <= 1) return least;
    const auto& [sx, sy] = slot_pair;
    for (const Var var : {Var::kMicro, Var::kLayer, Var::kTile})
      if (factor_of(sx, var) != factor_of(sy, var)) {
        if (var != block.var || block.relative) return least;
        return crossing(block, slot_pair, slots, least);
      }
    const std::int64_t rate = slot_rate(sx, block);
    const std::int32_t furthest = around == 0 ? 1 : std::min(slots, block.count - 1);
    for (std::int32_t delta = least; delta <= furthest; ++delta)
      if ((sx.base - sy.base + rate * delta) % slots == 0) return delta;
    return std::nullopt;
  }

  // The same of uses that go through the slots at different rates: in a loop upwards one of them
  // may go downwards.
  static std::optional<std::int32_t> crossing(const Block& block, const SlotPair& slot_pair,
                                              std::int32_t slots, std::int32_t least) {
    const auto& [sx, sy] = slot_pair;
    for (const Var other : {Var::kMicro, Var::kLayer, Var::kTile})
      if (other != block.var && factor_of(sx, other) != factor_of(sy, other)) return least;
    const auto at = [&](const SlotExpr& slot, std::int32_t i) {
      return slot.base + factor_of(slot, block.var) * (block.first + std::int64_t{block.step} * i);
    };
    for (std::int32_t delta = least; delta < block.count; ++delta)
      for (std::int32_t i = delta; i < block.count; ++i)
        if ((at(sx, i) - at(sy, i - delta)) % slots == 0) return delta;
    return std::nullopt;
  }

  // Edge to y at `level`; finds out whether y's loop there meets a loop of x iteration by
  // iteration.
  Edge matched(const Use& x, const Use& y, std::int32_t level, std::int32_t delta,
               std::int32_t slots) const {
    Edge edge{.node = y.node, .level = level, .delta = delta};
    const BlockIndex y_block = p_.nodes[y.node].block;
    if (slots <= 1 || p_.blocks[y_block].depth <= level) return edge;
    const BlockIndex y_loop = ancestor(p_, y_block, level + 1);
    const Var var = p_.blocks[y_loop].var;
    if (var != Var::kLayer && var != Var::kTile) return edge;
    const auto x_loop = only_loop(p_.nodes[x.node].block, level, var);
    if (!x_loop || !only_loop(y_block, level, var)) return edge;
    if (const auto match = pairing(x, *x_loop, y, y_loop, slots)) {
      edge.match = *match;
      edge.from_depth = p_.blocks[*x_loop].depth;
    }
    return edge;
  }

  // The loop that alone binds a variable among the blocks around `block` deeper than level.
  std::optional<BlockIndex> only_loop(BlockIndex block, std::int32_t level, Var var) const {
    std::optional<BlockIndex> found;
    for (BlockIndex b = block; p_.blocks[b].depth > level; b = p_.blocks[b].parent) {
      if (p_.blocks[b].var != var) continue;
      if (found || p_.blocks[b].relative) return std::nullopt;
      found = b;
    }
    return found;
  }

  // Whether each iteration of y's loop meets at most one iteration of x's in a slot: the same one,
  // or the mirrored one. Tiles within a layer are looked at one by one; of the other variables only
  // what holds whatever their values are: slots that differ modulo the factors of all of them.
  std::optional<Match> pairing(const Use& x, BlockIndex x_loop, const Use& y, BlockIndex y_loop,
                               std::int32_t slots) const {
    const Block& bx = p_.blocks[x_loop];
    const Block& by = p_.blocks[y_loop];
    const SlotExpr& sx = x.view->slot;
    const SlotExpr& sy = y.view->slot;
    if (bx.count != by.count || bx.count > slots) return std::nullopt;
    const auto x_tiles = tiles_within(x, x_loop), y_tiles = tiles_within(y, y_loop);
    std::int64_t g = slots;
    for (const Var other : {Var::kMicro, Var::kLayer, Var::kTile}) {
      if (other == by.var || (other == Var::kTile && x_tiles && y_tiles)) continue;
      if (factor_of(sx, other) != factor_of(sy, other)) return std::nullopt;
      g = std::gcd(g, factor_of(sx, other));
    }
    std::vector<std::int32_t> owner(static_cast<std::size_t>(g), kNobody);
    const auto visit = [&](const SlotExpr& slot, const Block& loop, const Tiles& tiles,
                           const auto& use) {
      for (std::int32_t i = 0; i < loop.count; ++i)
        for (std::int64_t t = 0; t < tiles.count; ++t) {
          const std::int64_t value =
              slot.base + factor_of(slot, loop.var) * (loop.first + std::int64_t{loop.step} * i) +
              tiles.factor * (tiles.first + tiles.step * t);
          if (!use(i, owner[static_cast<std::size_t>((value % g + g) % g)])) return false;
        }
      return true;
    };
    const auto claim = [](std::int32_t i, std::int32_t& holder) {
      if (holder != kNobody && holder != i) return false;
      holder = i;
      return true;
    };
    if (!visit(sy, by, y_tiles.value_or(Tiles{}), claim)) return std::nullopt;
    const auto meets = [&](bool mirrored) {
      return visit(sx, bx, x_tiles.value_or(Tiles{}), [&](std::int32_t i, std::int32_t holder) {
        return holder == kNobody || holder == (mirrored ? bx.count - 1 - i : i);
      });
    };
    if (meets(false)) return Match::kSame;
    if (meets(true)) return Match::kMirror;
    return std::nullopt;
  }

  // The tiles that a use goes through in each iteration of a layer loop around it.
  struct Tiles {
    std::int64_t count = 1, first = 0, step = 0, factor = 0;
  };
  std::optional<Tiles> tiles_within(const Use& use, BlockIndex loop) const {
    const auto found = only_loop(p_.nodes[use.node].block, p_.blocks[loop].depth, Var::kTile);
    if (!found || p_.blocks[loop].var == Var::kTile) return std::nullopt;
    const Block& tiles = p_.blocks[*found];
    return Tiles{tiles.count, tiles.first, tiles.step, use.view->slot.per_tile};
  }

  // Of edges that differ in nothing but the node of one lane the latest covers the others.
  void add(NodeIndex owner, Edge edge, bool reuse) {
    edge.reuse = reuse;
    const Lane lane = p_.nodes[edge.node].lane;
    std::vector<Edge>& list = edges_[owner];
    const auto alike = std::find_if(list.begin(), list.end(), [&](const Edge& other) {
      return is_alike(edge, other) && p_.nodes[other.node].lane == lane;
    });
    if (alike == list.end()) {
      list.push_back(edge);
    } else {
      alike->node = std::max(alike->node, edge.node);
    }
  }

  // Of edges of which one covers the other keeps that one; a data edge gives way to none of reuse.
  void reduce(std::vector<Edge>& list) const {
    std::sort(list.begin(), list.end(), [](const Edge& a, const Edge& b) {
      return a.reuse != b.reuse ? a.reuse < b.reuse : a < b;
    });
    list.erase(std::unique(list.begin(), list.end()), list.end());
    std::vector<Edge> kept;
    for (const Edge& edge : list) {
      const auto covered_by = [&](const Edge& other) { return covers(p_, other, edge); };
      if (std::any_of(kept.begin(), kept.end(), covered_by)) continue;
      std::erase_if(kept, [&](const Edge& other) {
        return other.reuse == edge.reuse && covers(p_, edge, other);
      });
      kept.push_back(edge);
    }
    list = std::move(kept);
  }

  Program& p_;
  std::vector<std::vector<Edge>> edges_;
};

std::vector<std::vector<Use>> accesses_by_buffer(const Program& p) {
  std::vector<std::vector<Use>> result(p.buffers.size());
  for (NodeIndex n = 0; n < p.nodes.size(); ++n)
    for (const View& v : p.operands(p.nodes[n])) result[v.buffer].push_back({n, &v});
  return result;
}

bool conflict(const Use& a, const Use& b) {
  return writes(a.view->access) || writes(b.view->access);
}

}  // namespace

void derive_data_edges(Program& program, ImpliedEdges implied) {
  EdgeDeriver deriver(program);
  const auto users = accesses_by_buffer(program);
  for (BufferId id = 0; id < users.size(); ++id) {
    const std::vector<Use>& list = users[id];
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = i + 1; j < list.size(); ++j)
        if (conflict(list[i], list[j]) && bytes_overlap(*list[i].view, *list[j].view))
          deriver.order(list[i], list[j], program.buffers[id].slots);
  }
  deriver.finish(false, implied);
}

void add_reuse_edges(Program& program, const std::vector<SharedBytes>& pairs) {
  EdgeDeriver deriver(program);
  deriver.keep_existing();
  const auto users = accesses_by_buffer(program);
  for (const SharedBytes& pair : pairs)
    for (const Use& a : users[pair.first])
      for (const Use& b : users[pair.second])
        if (conflict(a, b)) deriver.order(a, b, 0);
  deriver.finish(true, ImpliedEdges::kLeftOut);
}

}  // namespace zplan
