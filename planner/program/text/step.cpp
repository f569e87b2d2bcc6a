// Reads the nodes and blocks of the text form of a Job (text.h, parser.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/program/job/tree.h"
#include "planner/program/kernels/kernel_table.h"
#include "planner/program/text/fields.h"
#include "planner/program/text/text.h"

namespace zplan {
namespace {

// Values that the loop variables take within a block.
struct Range {
  std::int64_t low = 0, high = 0;
};
struct EnvRange {
  Range micro, layer, tile;
};

// Terms FACTOR m, FACTOR l, FACTOR t and a number, each at most once, with signs; "[" is behind us.
SlotExpr read_slot(TextScanner& in) {
  constexpr std::size_t kNumber = 3;
  std::array<std::optional<std::int32_t>, kNumber + 1> terms;
  bool first = true;
  while (first || !in.accept(']')) {
    const bool negative = in.accept('-');
    if (!negative && !first) in.expect('+');
    first = false;
    const bool has_factor = in.next_is_digit();
    const std::int64_t max = negative ? -kMinInt32 : kMaxInt32;
    const std::int64_t factor = has_factor ? in.integer("a factor", 0, max) : 1;
    const std::size_t term = in.accept('m') ? 0 : in.accept('l') ? 1 : in.accept('t') ? 2 : kNumber;
    if (term == kNumber && !has_factor) in.fail("a number, 'm', 'l' or 't'");
    if (terms[term]) in.fail("each term of a slot once", "it twice");
    terms[term] = static_cast<std::int32_t>(negative ? -factor : factor);
  }
  return {.base = terms[kNumber].value_or(0),
          .per_micro = terms[0].value_or(0),
          .per_layer = terms[1].value_or(0),
          .per_tile = terms[2].value_or(0)};
}

// The longest name of an axis that the line goes on with.
std::optional<std::size_t> accept_axis(TextScanner& in, const Mesh& mesh) {
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (in.accept(mesh.axes[a].name)) return a;
  return std::nullopt;
}

class StepParser {
 public:
  StepParser(TextScanner& in, const Job& job, Program& program)
      : in_(in), job_(job), program_(program) {}

  void parse() {
    attributes_[Attributes{}] = 0;
    program_.attributes.push_back(Attributes{});
    program_.blocks.emplace_back();
    block(0, EnvRange{});
    for (const PendingEdge& pending : pending_) check(pending);
    set_edges(program_, edges_);
    if (issued(0) > kMaxInstances) {
      in_.fail(fmt::format("at most {} nodes issued per step", kMaxInstances), "more");
    }
  }

 private:
  struct PendingEdge {  // the node it names may follow later
    NodeIndex owner;
    Edge edge;
    int line;
  };

  void block(BlockIndex index, const EnvRange& range);
  void repeat(BlockIndex parent, EnvRange range);
  void bind(Block& block, Range& range);
  void node(BlockIndex block);
  bool operation(Node& node, bool is_owned);  // whether it has operands
  Peer peer(std::string_view preposition);
  std::size_t axis_in(std::string_view what);
  void operands(Node& node);
  View view();
  std::int64_t step(std::size_t axis, AxisSet& seen, std::string_view what, std::int64_t most);
  void check_reach(const View& view);
  void check_operands(const Node& node);
  void attributes(Node& node);
  void edge(NodeIndex owner);
  void check(const PendingEdge& pending);
  std::int64_t issued(BlockIndex block) const;

  TextScanner& in_;
  const Job& job_;
  Program& program_;
  std::map<Attributes, std::uint32_t> attributes_;
  std::vector<std::vector<Edge>> edges_;  // of each node
  std::vector<PendingEdge> pending_;
};

void StepParser::block(BlockIndex index, const EnvRange& range) {
  in_.expect('{');
  in_.end_statement();
  while (true) {
    if (!in_.has_statement()) in_.fail_statement("'}'");
    if (in_.accept('}')) break;
    if (in_.accept("repeat")) {
      repeat(index, range);
    } else if (in_.accept('%')) {
      node(index);
    } else {
      in_.fail("a node, 'repeat' or '}'");
    }
  }
  if (index != 0 && program_.blocks[index].items.empty()) in_.fail("a node", "'}'");
  in_.end_statement();
}

void StepParser::repeat(BlockIndex parent, EnvRange range) {
  Block b;
  b.parent = parent;
  b.depth = program_.blocks[parent].depth + 1;
  if (b.depth == kMaxDepth) {
    in_.fail(fmt::format("at most {} blocks inside each other", kMaxDepth), "one more");
  }
  b.count = static_cast<std::int32_t>(in_.integer("iterations", 1, kMaxInt32));
  if (in_.accept("micro")) {
    b.var = Var::kMicro;
    bind(b, range.micro);
  } else if (in_.accept("layer")) {
    b.var = Var::kLayer;
    bind(b, range.layer);
  } else if (in_.accept("tile")) {
    b.var = Var::kTile;
    bind(b, range.tile);
  }
  const auto index = static_cast<BlockIndex>(program_.blocks.size());
  program_.blocks.push_back(std::move(b));
  program_.blocks[parent].items.push_back({true, index});
  block(index, range);
}

void StepParser::bind(Block& b, Range& range) {
  b.mirrored = in_.accept("mirrored");
  b.relative = b.mirrored || in_.accept("relative");
  in_.expect("from");
  b.first = static_cast<std::int32_t>(in_.integer("a first value", kMinInt32, kMaxInt32));
  in_.expect("step");
  b.step = static_cast<std::int32_t>(in_.integer("a step", kMinInt32, kMaxInt32));
  if (!b.relative) range = {};
  if (b.mirrored) range = {-range.high, -range.low};
  const std::int64_t travel = std::int64_t{b.step} * (b.count - 1);
  range.low += b.first + std::min<std::int64_t>(travel, 0);
  range.high += b.first + std::max<std::int64_t>(travel, 0);
  if (range.low < -kMaxLoopValue || range.high > kMaxLoopValue) {
    in_.fail(fmt::format("loop values from {} to {}", -kMaxLoopValue, kMaxLoopValue),
             fmt::format("{} to {}", range.low, range.high));
  }
}

void StepParser::node(BlockIndex block) {
  const auto index = static_cast<std::int64_t>(program_.nodes.size());
  in_.integer("the number of a node", index, index);
  Node n;
  n.block = block;
  const std::string role = in_.word("a role");
  const auto parsed = parse_role(role);
  if (!parsed) in_.fail("a role such as forward.qkv.compute", quoted_word(role));
  n.role = *parsed;
  if (in_.accept("member"))
    n.member = static_cast<std::uint16_t>(in_.integer("member", 0, kMaxLayers));
  const bool is_owned = in_.accept("owned");
  if (is_owned) n.group = read_group(in_, job_.mesh);
  n.lane = read_enum<Lane>(in_, "a lane");
  if (operation(n, is_owned)) operands(n);
  check_operands(n);
  if (in_.accept("attr")) attributes(n);
  program_.nodes.push_back(n);
  program_.blocks[block].items.push_back({false, static_cast<NodeIndex>(index)});
  edges_.emplace_back();
  if (in_.accept("after")) {
    do {
      edge(static_cast<NodeIndex>(index));
    } while (!in_.at_end());
  }
  in_.end_statement();
}

// "to pp +1 wraps"
Peer StepParser::peer(std::string_view preposition) {
  in_.expect(preposition);
  Peer peer;
  const std::optional<std::size_t> axis = accept_axis(in_, job_.mesh);
  if (!axis) in_.fail("an axis of the mesh");
  peer.axis = static_cast<std::uint8_t>(*axis);
  const bool back = in_.accept('-');
  if (!back) in_.expect('+');
  const std::int64_t most = std::min<std::int64_t>(job_.mesh.axes[*axis].size, kMaxPeerStep);
  const std::int64_t step = in_.integer("places along the axis", 1, most);
  peer.step = static_cast<std::int8_t>(back ? -step : step);
  peer.wraps = in_.accept("wraps");
  return peer;
}

bool StepParser::operation(Node& n, bool is_owned) {
  const std::string word = in_.word("an operation");
  if (const auto kernel = parse_name<KernelId>(word)) {
    n.kind = OpKind::kKernel;
    n.kernel = *kernel;
  } else if (const auto collective = parse_name<CollectiveKind>(word)) {
    n.kind = OpKind::kCollective;
    n.collective = *collective;
    n.group = read_group(in_, job_.mesh);
  } else if (word == "copy") {
    n.kind = OpKind::kCopy;
  } else if (word == "send") {
    n.kind = OpKind::kSend;
    n.peer = peer("to");
  } else if (word == "receive") {
    n.kind = OpKind::kReceive;
    n.peer = peer("from");
  } else if (word != "mark" && word != "wait") {
    in_.fail("a kernel, a collective, copy, send, receive, mark or wait", quoted_word(word));
  }
  if (is_owned && n.kind != OpKind::kKernel && n.kind != OpKind::kCopy)
    in_.fail("a kernel or a copy of one owner", quoted_word(word));
  return word != "mark";
}

void StepParser::operands(Node& n) {
  n.operands_begin = static_cast<std::uint32_t>(program_.views.size());
  do {
    program_.views.push_back(view());
  } while (in_.accept(','));
  n.operands_end = static_cast<std::uint32_t>(program_.views.size());
}

// "*512", after the name of the axis.
std::int64_t StepParser::step(std::size_t axis, AxisSet& seen, std::string_view what,
                              std::int64_t most) {
  if (seen.has(axis)) in_.fail(fmt::format("{} once", job_.mesh.axes[axis].name), "it twice");
  seen.add(axis);
  in_.expect('*');
  return in_.integer(what, -most, most);
}

View StepParser::view() {
  View v;
  v.access = read_enum<Access>(in_, "an access");
  v.buffer = read_reference(in_, program_.buffers, "buffer");
  if (in_.accept('[')) v.slot = read_slot(in_);
  const Bytes slot_size = program_.buffers[v.buffer].slot_size;
  bool has_offset = false;
  AxisSet seen;
  while (in_.accept('+')) {
    if (const auto axis = accept_axis(in_, job_.mesh)) {
      v.strides[*axis] = step(*axis, seen, "bytes per place", slot_size.value);
    } else {
      if (std::exchange(has_offset, true)) in_.fail("one offset", "two");
      v.offset = {in_.integer("offset within the slot", 0, slot_size.value)};
    }
  }
  in_.expect(':');
  v.dtype = read_enum<DType>(in_, "a data type");
  v.shape = read_shape(in_);
  check_reach(v);
  return v;
}

// The views of all ranks lie within the slot. Each stride alone is checked first, so that nothing
// overflows.
void StepParser::check_reach(const View& v) {
  const std::int64_t slot_size = program_.buffers[v.buffer].slot_size.value;
  const std::int64_t end = (v.offset + v.bytes()).value;  // both bounded
  bool fits = end <= slot_size;
  std::int64_t left = slot_size - end, before = v.offset.value;
  std::string ends_at = fmt::to_string(end);
  for (std::size_t a = 0; a < job_.mesh.axes.size(); ++a) {
    const std::int64_t last = job_.mesh.axes[a].size - 1;
    if (v.strides[a] == 0 || last == 0) continue;
    std::int64_t& room = v.strides[a] < 0 ? before : left;
    const std::int64_t step = std::abs(v.strides[a]);
    fits = fits && step <= room / last;
    if (fits) room -= step * last;
    ends_at += fmt::format("+{}*{}", last, v.strides[a]);
  }
  if (fits) return;
  in_.fail(fmt::format("a view within the slot of {} bytes", slot_size),
           fmt::format("one that ends at {}", ends_at));
}

void StepParser::check_operands(const Node& n) {
  int min = 0, max = 0;
  switch (n.kind) {
    case OpKind::kKernel:
      min = kernel_def(n.kernel).min_operands;
      max = kernel_def(n.kernel).max_operands();
      break;
    case OpKind::kCopy:
    case OpKind::kCollective:
      min = max = 2;
      break;
    case OpKind::kSend:
    case OpKind::kReceive:
      min = max = 1;
      break;
    case OpKind::kMark:
      max = 1;
      break;
  }
  const auto got = static_cast<int>(n.operands_end - n.operands_begin);
  if (got < min || got > max) {
    in_.fail(
        min == max ? fmt::format("{} operands", min) : fmt::format("{} to {} operands", min, max),
        fmt::to_string(got));
  }
  if (n.kind != OpKind::kKernel) return;
  const KernelDef& def = kernel_def(n.kernel);
  if (const auto got = def.mismatch(program_.operands(n))) {
    in_.fail(fmt::format("{} of types {} for {}", def.shapes, def.types, name(n.kernel)), *got);
  }
}

void StepParser::attributes(Node& n) {
  Attributes values{};
  for (std::size_t i = 0; i < kMaxAttributes; ++i) {
    if (i >= kLeastAttributesShown && !in_.next_is_digit()) break;
    Attribute& attribute = values[i];
    attribute.base = in_.integer("an attribute", -kMaxUnitElements, kMaxUnitElements);
    AxisSet seen;
    while (in_.accept('+')) {
      const auto axis = accept_axis(in_, job_.mesh);
      if (!axis) in_.fail("an axis of the mesh");
      const std::int64_t most = kMaxUnitElements / job_.mesh.axes[*axis].size;
      attribute.steps[*axis] = step(*axis, seen, "an attribute's growth per place", most);
    }
  }
  const auto [row, is_new] =
      attributes_.emplace(values, static_cast<std::uint32_t>(program_.attributes.size()));
  if (is_new) program_.attributes.push_back(values);
  n.attributes = row->second;
}

void StepParser::edge(NodeIndex owner) {
  in_.expect('%');
  Edge e;
  e.node = static_cast<NodeIndex>(in_.integer("the number of a node", 0, kMaxInt32));
  in_.expect(':');
  e.level = static_cast<std::int32_t>(in_.integer("a level", 0, kMaxDepth - 1));
  if (in_.accept('-')) e.delta = static_cast<std::int32_t>(in_.integer("a delta", 0, kMaxInt32));
  bool reuse = false, matched = false;
  while (in_.accept(':')) {
    if (in_.accept("reuse")) {
      if (std::exchange(reuse, true)) in_.fail("'reuse' once", "it twice");
    } else {
      if (std::exchange(matched, true)) in_.fail("one match", "two");
      e.match = read_enum<Match>(in_, "a match");
      in_.expect('@');
      e.from_depth = static_cast<std::int32_t>(in_.integer("a depth", 1, kMaxDepth - 1));
    }
  }
  e.reuse = reuse;
  pending_.push_back({owner, e, in_.line()});
}

void StepParser::check(const PendingEdge& pending) {
  const auto& [owner, edge, line] = pending;
  if (edge.node >= program_.nodes.size()) {
    in_.fail_at(line, fmt::format("an edge to a node below {}", program_.nodes.size()),
                fmt::format("%{}", edge.node));
  }
  const BlockIndex from = program_.nodes[owner].block;
  const BlockIndex to = program_.nodes[edge.node].block;
  const Block& common = program_.blocks[ancestor(program_, from, edge.level)];
  if (common.depth != edge.level ||
      ancestor(program_, from, edge.level) != ancestor(program_, to, edge.level)) {
    in_.fail_at(line, fmt::format("an edge to %{} at the level of a common block", edge.node),
                fmt::format("level {}", edge.level));
  }
  const bool has_loop = program_.blocks[to].depth > edge.level;
  if (edge.match != Match::kLast && has_loop) {
    const BlockIndex mine = ancestor(program_, from, edge.from_depth);
    const BlockIndex theirs = ancestor(program_, to, edge.level + 1);
    const bool paired = edge.from_depth > edge.level &&
                        edge.from_depth <= program_.blocks[from].depth &&
                        program_.blocks[mine].count == program_.blocks[theirs].count;
    if (!paired) {
      in_.fail_at(line, fmt::format("loops of equal count for a match with %{}", edge.node),
                  fmt::format("{}@{}", name(edge.match), edge.from_depth));
    }
  }
  edges_[owner].push_back(edge);
}

// Nodes issued by one iteration, kMaxInstances + 1 when there are more than kMaxInstances.
std::int64_t StepParser::issued(BlockIndex block) const {
  std::int64_t sum = 0;
  for (const Block::Item& item : program_.blocks[block].items) {
    std::int64_t one = 1;
    if (item.is_block) {
      const std::int64_t count = program_.blocks[item.index].count;
      const std::int64_t body = issued(item.index);
      one = body > kMaxInstances / count ? kMaxInstances + 1 : body * count;
    }
    sum = std::min(sum + one, kMaxInstances + 1);
  }
  return sum;
}

}  // namespace

AxisSet read_axes(TextScanner& in, const Mesh& mesh) {
  AxisSet axes;
  if (in.accept("none")) return axes;
  do {
    const auto axis = accept_axis(in, mesh);
    if (!axis) in.fail("axes of the mesh, such as " + mesh.axes.front().name);
    if (axes.has(*axis)) in.fail("each axis once", "it twice");
    axes.add(*axis);
  } while (in.accept('+'));
  return axes;
}

Group read_group(TextScanner& in, const Mesh& mesh) {
  Group group;
  group.ends = in.accept("ends");
  if (group.ends) in.expect('(');
  group.axes = read_axes(in, mesh);
  if (group.ends) in.expect(')');
  return group;
}

Shape read_shape(TextScanner& in) {
  in.expect('[');
  Shape shape;
  if (in.accept(']')) return shape;
  std::int64_t elements = 1;
  do {
    if (shape.rank == kMaxRank) in.fail(fmt::format("at most {} dimensions", kMaxRank), "more");
    const std::int64_t dim = in.integer("a dimension", 1, kMaxViewElements / elements);
    elements *= dim;
    shape.dims[static_cast<std::size_t>(shape.rank++)] = dim;
  } while (in.accept(','));
  in.expect(']');
  const auto end = shape.dims.begin() + shape.rank;
  if (shape.rank >= 3 && *std::max_element(shape.dims.begin(), end) > kMaxInnerDim) {
    in.fail(fmt::format("dimensions up to {} in a shape of rank 3 and more", kMaxInnerDim), "more");
  }
  return shape;
}

void read_step(TextScanner& in, const Job& job, Program& program) {
  StepParser(in, job, program).parse();
}

}  // namespace zplan
