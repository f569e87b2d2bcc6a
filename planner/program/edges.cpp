#include "planner/program/edges.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "planner/program/tree.h"

namespace zplan {
namespace {

struct Use {
  NodeIndex node;
  const View* view;
};

// Deepest block around a block that binds the layer variable.
std::optional<BlockIndex> layer_loop(const Program& p, BlockIndex block) {
  for (BlockIndex b = block; b != 0; b = p.blocks[b].parent)
    if (p.blocks[b].var == Var::kLayer) return b;
  return std::nullopt;
}

bool bytes_overlap(const View& a, const View& b) {
  if (a.dp_stride.value != 0 || b.dp_stride.value != 0) return true;
  return a.offset < b.offset + b.bytes() && b.offset < a.offset + a.bytes();
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

  void finish() {
    for (auto& list : edges_) reduce(list);
    set_edges(p_, edges_);
  }

 private:
  // x waits for the earlier y of the same iteration of their common block.
  void forward(const Use& x, const Use& y, std::int32_t slots) {
    const BlockIndex common = common_ancestor(p_, p_.nodes[x.node].block, p_.nodes[y.node].block);
    const std::int32_t level = p_.blocks[common].depth;
    if (p_.nodes[x.node].block == common && p_.nodes[y.node].block == common) {
      const std::optional<std::int32_t> delta = distance(common, x, y, slots, 0);
      if (delta) add(x.node, {.node = y.node, .level = level, .delta = *delta}, slots == 0);
      if (delta != 0) outer_iterations(x, y, common, slots);
      return;
    }
    add(x.node, matched(x, y, level, 0, slots), slots == 0);
  }

  // x waits for the y that follows it in program order, of an earlier iteration of a common block.
  void wrap(const Use& x, const Use& y, std::int32_t slots) {
    const BlockIndex common = common_ancestor(p_, p_.nodes[x.node].block, p_.nodes[y.node].block);
    const Block& block = p_.blocks[common];
    if (common == 0 || block.count > 1) {
      if (p_.nodes[x.node].block == common && p_.nodes[y.node].block == common) {
        const std::optional<std::int32_t> delta = distance(common, x, y, slots, 1);
        if (delta) add(x.node, {.node = y.node, .level = block.depth, .delta = *delta}, slots == 0);
      } else {
        add(x.node, matched(x, y, block.depth, 1, slots), slots == 0);
      }
    }
    outer_iterations(x, y, common, slots);
  }

  // The blocks around `common`: their previous iteration, for the first iterations of `common`.
  void outer_iterations(const Use& x, const Use& y, BlockIndex common, std::int32_t slots) {
    while (common != 0) {
      common = p_.blocks[common].parent;
      const Block& block = p_.blocks[common];
      if (common == 0 || block.count > 1)
        add(x.node, matched(x, y, block.depth, 1, slots), slots == 0);
    }
  }

  // Least iteration distance >= least of the common block at which both meet in one slot. The step
  // is no variable, so at the root every distance meets.
  std::optional<std::int32_t> distance(BlockIndex common, const Use& x, const Use& y,
                                       std::int32_t slots, std::int32_t least) const {
    const Block& block = p_.blocks[common];
    if (slots <= 1) return least;
    const SlotExpr& sx = x.view->slot;
    const SlotExpr& sy = y.view->slot;
    if (sx.per_micro != sy.per_micro || sx.per_layer != sy.per_layer) return least;
    std::int64_t rate = 0;
    if (block.var == Var::kMicro) rate = std::int64_t{sx.per_micro} * block.step;
    if (block.var == Var::kLayer) rate = std::int64_t{sx.per_layer} * block.step;
    const std::int32_t furthest = common == 0 ? 1 : std::min(slots, block.count - 1);
    for (std::int32_t delta = least; delta <= furthest; ++delta)
      if ((sx.base - sy.base + rate * delta) % slots == 0) return delta;
    return std::nullopt;
  }

  // Edge to y at `level`; finds out whether y's loop there meets x's layer by layer.
  Edge matched(const Use& x, const Use& y, std::int32_t level, std::int32_t delta,
               std::int32_t slots) const {
    Edge edge{.node = y.node, .level = level, .delta = delta};
    const auto x_loop = layer_loop(p_, p_.nodes[x.node].block);
    const auto y_loop = layer_loop(p_, p_.nodes[y.node].block);
    if (slots == 0 || !x_loop || !y_loop || *y_loop != p_.nodes[y.node].block) return edge;
    const Block& bx = p_.blocks[*x_loop];
    const Block& by = p_.blocks[*y_loop];
    if (by.depth != level + 1 || bx.depth <= level || bx.count != by.count) return edge;
    const SlotExpr& sx = x.view->slot;
    const SlotExpr& sy = y.view->slot;
    if (sx.per_micro != sy.per_micro || sx.per_layer != sy.per_layer) return edge;
    // Slots that differ modulo g differ whatever the micro-batch; within g each layer has its own.
    const std::int64_t g =
        std::gcd(static_cast<std::int64_t>(slots), static_cast<std::int64_t>(sx.per_micro));
    const std::int64_t q = sx.per_layer;
    if (q == 0 || std::abs(q * by.step) * by.count > g) return edge;
    const std::int64_t last = by.count - 1;
    const auto meets = [&](std::int64_t i, std::int64_t j) {
      return (sx.base - sy.base + q * (bx.first + bx.step * i - by.first - by.step * j)) % g == 0;
    };
    edge.from_depth = bx.depth;
    if (bx.step == by.step && meets(0, 0) && meets(last, last)) {
      edge.match = Match::kSame;
    } else if (bx.step == -by.step && meets(0, last) && meets(last, 0)) {
      edge.match = Match::kMirror;
    } else {
      edge.from_depth = 0;
    }
    return edge;
  }

  void add(NodeIndex owner, Edge edge, bool reuse) {
    edge.reuse = reuse;
    edges_[owner].push_back(edge);
  }

  // Waiting for one instance implies all earlier ones of its lane; drops what others imply.
  void reduce(std::vector<Edge>& list) const {
    const auto implies = [&](const Edge& strong, const Edge& weak) {
      if (p_.nodes[strong.node].lane != p_.nodes[weak.node].lane) return false;
      if (strong.delta == 0 && weak.level <= strong.level && weak.delta > 0) return true;
      if (strong.delta == 0 && weak.delta == 0 && weak.level < strong.level) return true;
      const bool same_reach = strong.level == weak.level && strong.delta == weak.delta &&
                              strong.match == weak.match && strong.from_depth == weak.from_depth;
      return same_reach && strong.node > weak.node;
    };
    std::stable_sort(list.begin(), list.end(),
                     [](const Edge& a, const Edge& b) { return a.reuse < b.reuse; });
    std::vector<Edge> kept;
    for (std::size_t i = 0; i < list.size(); ++i) {
      bool needed = true;
      for (std::size_t j = 0; j < list.size() && needed; ++j)
        if (j != i && implies(list[j], list[i])) needed = false;
      for (const Edge& k : kept) {
        Edge same = k;
        same.reuse = list[i].reuse;
        if (same == list[i]) needed = false;
      }
      if (needed) kept.push_back(list[i]);
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

void derive_data_edges(Program& program) {
  EdgeDeriver deriver(program);
  const auto users = accesses_by_buffer(program);
  for (BufferId id = 0; id < users.size(); ++id) {
    const std::vector<Use>& list = users[id];
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = i + 1; j < list.size(); ++j)
        if (conflict(list[i], list[j]) && bytes_overlap(*list[i].view, *list[j].view))
          deriver.order(list[i], list[j], program.buffers[id].slots);
  }
  deriver.finish();
}

void add_reuse_edges(Program& program, const std::vector<SharedBytes>& pairs) {
  EdgeDeriver deriver(program);
  deriver.keep_existing();
  const auto users = accesses_by_buffer(program);
  for (const SharedBytes& pair : pairs)
    for (const Use& a : users[pair.first])
      for (const Use& b : users[pair.second])
        if (conflict(a, b)) deriver.order(a, b, 0);
  deriver.finish();
}

}  // namespace zplan
