#include "planner/program/verify/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "planner/core/text.h"
#include "planner/program/job/tree.h"

namespace zplan {
namespace {

class StructureCheck {
 public:
  StructureCheck(const Job& job, const RankClass& rank_class, ClassFindings& findings)
      : job_(job), class_(rank_class), p_(rank_class.program), findings_(findings) {}

  void run() {
    check_layers();
    check_blocks();
    if (!findings_.empty()) return;
    check_tree();
    check_buffers();
    check_ranges();
    if (!findings_.empty()) return;
    for (NodeIndex n = 0; n < p_.nodes.size(); ++n) {
      check_member(n);
      for (const View& v : p_.operands(p_.nodes[n])) check_view(n, v);
      for (const Edge& e : p_.after(p_.nodes[n])) check_edge(n, e);
    }
    if (job_.placed) check_placement();
    check_homes();
    if (findings_.empty()) check_op_ids(p_, findings_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    findings_.add(fmt::format(format, std::forward<Args>(args)...));
  }

  void check_layers() {
    const std::int32_t together = p_.unit_layers;
    if (together < 1) return add("layer loops go through {} layers at a time", together);
    for (const LayerRange& range : class_.layers)
      if (range.count % together != 0 || range.first % together != 0)
        add("{} layers from {} on do not come {} at a time", range.count, range.first, together);
  }

  void check_member(NodeIndex n) {
    const Node& node = p_.nodes[n];
    const std::int64_t layers = layers_of_iteration(node.block);
    if (layers > 0 && node.member >= layers * (goes_down(node.block) ? 2 : 1))
      add("{} is of layer {} of {}", node_name(p_, n), node.member, layers);
  }

  // The layer loop around a block; the root: there is none.
  BlockIndex layer_loop(BlockIndex block) const {
    while (block != 0 && p_.blocks[block].var != Var::kLayer) block = p_.blocks[block].parent;
    return block;
  }
  std::int64_t layers_of_iteration(BlockIndex block) const {
    const BlockIndex loop = layer_loop(block);
    const std::int64_t units = std::max(1, std::abs(p_.blocks[loop].step));
    return loop == 0 ? 0 : units * p_.unit_layers;
  }
  // Whether the layers of an iteration come before those of the one before it.
  bool goes_down(BlockIndex block) const { return p_.blocks[layer_loop(block)].step < 0; }

  void check_blocks() {
    if (p_.blocks.empty()) return add("the program has no root block");
    if (p_.blocks[0].depth != 0 || p_.blocks[0].count != 1)
      add("the root block must have depth 0 and count 1");
    for (BlockIndex b = 1; b < p_.blocks.size(); ++b) {
      const Block& block = p_.blocks[b];
      if (block.parent >= b) {
        add("block {} has parent {}, which does not come before it", b, block.parent);
      } else if (block.depth != p_.blocks[block.parent].depth + 1 || block.depth >= kMaxDepth) {
        add("block {} has depth {} below a parent of depth {}", b, block.depth,
            p_.blocks[block.parent].depth);
      }
      if (block.count < 1) add("block {} is repeated {} times", b, block.count);
    }
  }

  // Visits the tree in program order: nodes must come by ascending index.
  void check_tree() {
    std::vector<char> seen(p_.blocks.size(), 0);
    NodeIndex next = 0;
    visit(0, seen, next);
    if (next != p_.nodes.size())
      add("{} of {} nodes hang in the tree in program order", next, p_.nodes.size());
    for (BlockIndex b = 0; b < p_.blocks.size(); ++b)
      if (!seen[b]) add("block {} hangs nowhere in the tree", b);
  }

  void visit(BlockIndex at, std::vector<char>& seen, NodeIndex& next) {
    if (seen[at]) return add("block {} hangs in the tree twice", at);
    seen[at] = 1;
    for (const Block::Item& item : p_.blocks[at].items) {
      if (item.is_block) {
        const bool child =
            item.index < p_.blocks.size() && item.index != 0 && p_.blocks[item.index].parent == at;
        if (!child) return add("block {} holds block {}, whose parent is another", at, item.index);
        visit(item.index, seen, next);
      } else if (item.index != next || next >= p_.nodes.size() || p_.nodes[next].block != at) {
        return add("block {} holds node {} where node {} was due", at, item.index, next);
      } else {
        ++next;
      }
    }
  }

  void check_buffers() {
    std::set<std::string> names;
    for (const Buffer& buffer : p_.buffers) {
      if (!names.insert(buffer.name).second) add("two buffers are named '{}'", buffer.name);
      const std::int64_t unit = alignment(buffer.tier).value;
      if (buffer.slot_size.value <= 0 || buffer.slot_size.value % unit != 0)
        add("buffer '{}': slot of {} bytes is not a positive multiple of {}", buffer.name,
            buffer.slot_size.value, unit);
      if (buffer.slots < 1) add("buffer '{}' has {} slots", buffer.name, buffer.slots);
    }
  }

  void check_ranges() {
    for (NodeIndex n = 0; n < p_.nodes.size(); ++n) {
      const Node& node = p_.nodes[n];
      if (node.operands_begin > node.operands_end || node.operands_end > p_.views.size())
        add("{}: operands [{}, {}) of {}", node_name(p_, n), node.operands_begin, node.operands_end,
            p_.views.size());
      if (node.edges_begin > node.edges_end || node.edges_end > p_.edges.size())
        add("{}: edges [{}, {}) of {}", node_name(p_, n), node.edges_begin, node.edges_end,
            p_.edges.size());
    }
  }

  void check_view(NodeIndex n, const View& v) {
    if (v.buffer >= p_.buffers.size())
      return add("{}: view of buffer {} of {}", node_name(p_, n), v.buffer, p_.buffers.size());
    const Buffer& buffer = p_.buffers[v.buffer];
    const Bytes begin = v.offset + Bytes{job_.mesh.depth(v.strides)};
    const Bytes end = v.offset + Bytes{job_.mesh.reach(v.strides)} + v.bytes();
    const auto& steps = v.strides;
    if (v.shape.elements() <= 0) add("{}: empty view of '{}'", node_name(p_, n), buffer.name);
    if (begin.value < 0 || end > buffer.slot_size)
      add("{}: view of '{}' reaches from {} to {} in a slot of {} bytes", node_name(p_, n),
          buffer.name, begin.value, end.value, buffer.slot_size.value);
    const std::int64_t element = size_of(v.dtype).value;
    const bool between =
        std::any_of(steps.begin(), steps.end(), [&](auto s) { return s % element != 0; });
    if (v.offset.value % element != 0 || between)
      add("{}: view of '{}' at {}, with strides {}, is not aligned to its {} elements",
          node_name(p_, n), buffer.name, v.offset.value, joined(steps, ", "), name(v.dtype));
    if (v.dtype != buffer.dtype && v.access != Access::kScratch)
      add("{}: view of '{}' is {}, the buffer holds {}", node_name(p_, n), buffer.name,
          name(v.dtype), name(buffer.dtype));
  }

  void check_edge(NodeIndex n, const Edge& edge) {
    if (edge.node >= p_.nodes.size())
      return add("{}: waits for node {} of {}", node_name(p_, n), edge.node, p_.nodes.size());
    const BlockIndex own = p_.nodes[n].block, other = p_.nodes[edge.node].block;
    const std::string edge_name = node_name(p_, n) + " after " + node_name(p_, edge.node);
    if (edge.delta < 0) add("{}: waits {} iterations ahead", edge_name, -edge.delta);
    if (edge.level < 0 || edge.level > p_.blocks[own].depth ||
        edge.level > p_.blocks[other].depth ||
        ancestor(p_, own, edge.level) != ancestor(p_, other, edge.level))
      return add("{}: no common block at level {}", edge_name, edge.level);
    if (edge.match == Match::kLast || p_.blocks[other].depth == edge.level) return;
    if (edge.from_depth <= edge.level || edge.from_depth > p_.blocks[own].depth)
      return add("{}: no loop at depth {} to match iterations with", edge_name, edge.from_depth);
    const std::int32_t count = p_.blocks[ancestor(p_, own, edge.from_depth)].count;
    const std::int32_t other_count = p_.blocks[ancestor(p_, other, edge.level + 1)].count;
    if (count != other_count)
      add("{}: matches {} iterations with {}", edge_name, count, other_count);
  }

  void check_placement() {
    const Placement& placement = class_.placement;
    if (placement.offset.size() != p_.buffers.size())
      return add("{} offsets for {} buffers", placement.offset.size(), p_.buffers.size());
    for (BufferId id = 0; id < p_.buffers.size(); ++id) {
      const Buffer& buffer = p_.buffers[id];
      const Bytes offset = placement.offset[id];
      const Bytes slab = placement.slab[static_cast<std::size_t>(buffer.tier)];
      const std::int64_t unit = alignment(buffer.tier).value;
      if (offset.value < 0 || offset.value % unit != 0)
        add("buffer '{}' lies at {}, not a multiple of {}", buffer.name, offset.value, unit);
      if (offset + buffer.size() > slab)
        add("buffer '{}' reaches to {} in a {} slab of {} bytes", buffer.name,
            (offset + buffer.size()).value, name(buffer.tier), slab.value);
      if (buffer.persistent) check_alone(id);
    }
  }

  // Nothing may lie on the bytes of a persistent buffer, except what nobody uses.
  void check_alone(BufferId id) {
    const auto& offset = class_.placement.offset;
    const Buffer& buffer = p_.buffers[id];
    for (BufferId other = 0; other < p_.buffers.size(); ++other) {
      const Buffer& neighbour = p_.buffers[other];
      if (other == id || neighbour.tier != buffer.tier) continue;
      const bool apart = offset[other] + neighbour.size() <= offset[id] ||
                         offset[id] + buffer.size() <= offset[other];
      if (!apart && is_used(other))
        add("'{}' lies on bytes of the persistent buffer '{}'", neighbour.name, buffer.name);
    }
  }

  bool is_used(BufferId id) const {
    if (p_.buffers[id].persistent) return true;
    return std::any_of(p_.views.begin(), p_.views.end(),
                       [&](const View& v) { return v.buffer == id; });
  }

  void check_homes() {
    for (const UnitHome& home : class_.homes) {
      if (home.unit >= job_.units.size()) {
        add("a home for unit {} of {}", home.unit, job_.units.size());
        continue;
      }
      const Unit& unit = job_.units[home.unit];
      for (const Tensor& tensor : unit.tensors)
        if (tensor.member >= p_.unit_layers)
          add("tensor '{}' is of layer {} of {}", tensor.name, tensor.member, p_.unit_layers);
      for (const StateHome* state : home.states()) check_home(unit, *state);
    }
  }

  void check_home(const Unit& unit, const StateHome& state) {
    std::int64_t slots = 0;
    for (const BufferId id : state.buffers()) {
      if (id >= p_.buffers.size())
        return add("unit '{}' is kept in buffer {} of {}", unit.name, id, p_.buffers.size());
      slots += p_.buffers[id].slots;
      check_home(unit, state, p_.buffers[id]);
    }
    const Buffer& buffer = p_.buffers[state.buffer];
    const auto layers = static_cast<std::int32_t>(class_.layers_with(unit).size());
    const std::int32_t copies = (unit.per_layer ? layers / p_.unit_layers : 1) * unit.tiles;
    if (slots != copies)
      add("unit '{}' is kept in '{}', which has {} slots for {} copies", unit.name, buffer.name,
          slots, copies);
    if (state.rest == state.buffer)
      add("unit '{}' is kept in '{}' and goes on in the same", unit.name, buffer.name);
    if (state.rest && p_.buffers[*state.rest].dtype != buffer.dtype)
      add("unit '{}' is kept in '{}' and '{}', which have different types", unit.name, buffer.name,
          p_.buffers[*state.rest].name);
  }

  void check_home(const Unit& unit, const StateHome& state, const Buffer& buffer) {
    if (!buffer.persistent)
      add("unit '{}' is kept in '{}', which is not persistent", unit.name, buffer.name);
    const std::int64_t flat = job_.piece_elements(unit, state.shards);
    if (flat % state.every != 0)
      add("unit '{}' is kept in '{}' by {} elements, which {} are no multiple of", unit.name,
          buffer.name, state.every, flat);
    const std::int64_t elements = flat / state.every;
    const Bytes needed = size_of(buffer.dtype) * elements;
    if (needed > buffer.slot_size)
      add("unit '{}' needs {} bytes in '{}', whose slots have {}", unit.name, needed.value,
          buffer.name, buffer.slot_size.value);
  }

  const Job& job_;
  const RankClass& class_;
  const Program& p_;
  ClassFindings& findings_;
};

}  // namespace

void check_structure(const Job& job, const RankClass& rank_class, ClassFindings& findings) {
  StructureCheck(job, rank_class, findings).run();
}

}  // namespace zplan
