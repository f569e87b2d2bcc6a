#include "planner/program/text/text.h"

#include <fmt/format.h>

#include <span>

#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/program/job/names.h"
#include "planner/program/text/fields.h"
#include "planner/program/text/scanner.h"

namespace zplan {
namespace {

template <typename... Args>
void put(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  out += fmt::format(format, std::forward<Args>(args)...);
}

template <typename Range>
std::string list_text(const Range& numbers) {
  return fmt::format("[{}]", joined(numbers, ","));
}

std::string shape_text(const Shape& shape) {
  return list_text(std::span(shape.dims).first(static_cast<std::size_t>(shape.rank)));
}

// "+2m", "-l", "3"
void put_term(std::string& out, std::int64_t factor, std::string_view variable) {
  if (factor == 0) return;
  if (factor < 0) {
    out += '-';
  } else if (out.back() != '[') {
    out += '+';
  }
  const std::int64_t size = factor < 0 ? -factor : factor;
  if (size != 1 || variable.empty()) put(out, "{}", size);
  out += variable;
}

void put_slot(std::string& out, const SlotExpr& slot) {
  if (slot == SlotExpr{}) return;
  out += '[';
  put_term(out, slot.per_micro, "m");
  put_term(out, slot.per_layer, "l");
  put_term(out, slot.per_tile, "t");
  put_term(out, slot.base, "");
  out += ']';
}

std::string reference(const Program& program, BufferId id) {
  return fmt::format("{}@{}", quoted_word(program.buffers[id].name), id);
}

// "+dp*512"
void put_steps(std::string& out, const Mesh& mesh, const AxisSteps& steps) {
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (steps[a] != 0) put(out, "+{}*{}", mesh.axes[a].name, steps[a]);
}

void put_view(std::string& out, const Mesh& mesh, const Program& program, const View& v) {
  put(out, " {} {}", name(v.access), reference(program, v.buffer));
  put_slot(out, v.slot);
  if (v.offset.value != 0) put(out, "+{}", v.offset.value);
  put_steps(out, mesh, v.strides);
  put(out, ":{}{}", name(v.dtype), shape_text(v.shape));
}

void put_edge(std::string& out, const Edge& e) {
  put(out, " %{}:{}", e.node, e.level);
  if (e.delta != 0) put(out, "-{}", e.delta);
  if (e.match != Match::kLast) put(out, ":{}@{}", name(e.match), e.from_depth);
  if (e.reuse) out += ":reuse";
}

// "pp +1", "pp -1 wraps"
std::string peer_text(const Mesh& mesh, const Peer& peer) {
  return fmt::format("{} {:+}{}", mesh.axes[peer.axis].name, peer.step, peer.wraps ? " wraps" : "");
}

std::string operation(const Mesh& mesh, const Node& n) {
  switch (n.kind) {
    case OpKind::kKernel:
      return std::string(name(n.kernel));
    case OpKind::kCopy:
      return "copy";
    case OpKind::kCollective:
      return fmt::format("{} {}", name(n.collective), name(mesh, n.group));
    case OpKind::kSend:
      return fmt::format("send to {}", peer_text(mesh, n.peer));
    case OpKind::kReceive:
      return fmt::format("receive from {}", peer_text(mesh, n.peer));
    case OpKind::kMark:
      return n.operands_begin == n.operands_end ? "mark" : "wait";
  }
  ZPLAN_ASSERT(!"an OpKind");
  return {};
}

// Those after the first few only as far as they are not zero.
void put_attributes(std::string& out, const Mesh& mesh, const Attributes& attributes) {
  if (attributes == Attributes{}) return;
  out += " attr";
  std::size_t shown = kMaxAttributes;
  while (shown > kLeastAttributesShown && attributes[shown - 1] == Attribute{}) --shown;
  for (std::size_t i = 0; i < shown; ++i) {
    put(out, " {}", attributes[i].base);
    put_steps(out, mesh, attributes[i].steps);
  }
}

void put_node(std::string& out, const Mesh& mesh, const Program& program, NodeIndex index) {
  const Node& n = program.nodes[index];
  put(out, "%{} {}", index, name(n.role));
  if (n.member != 0) put(out, " member {}", n.member);
  if (n.kind != OpKind::kCollective && n.group != Group{})
    put(out, " owned {}", name(mesh, n.group));
  put(out, " {} {}", name(n.lane), operation(mesh, n));
  bool first = true;
  for (const View& v : program.operands(n)) {
    if (!first) out += ',';
    first = false;
    put_view(out, mesh, program, v);
  }
  put_attributes(out, mesh, program.attributes_of(n));
  if (n.edges_begin != n.edges_end) out += " after";
  for (const Edge& e : program.after(n)) put_edge(out, e);
  out += '\n';
}

void put_block(std::string& out, const Mesh& mesh, const Program& program, BlockIndex index) {
  const Block& block = program.blocks[index];
  const std::string indent(2 * static_cast<std::size_t>(block.depth) + 2, ' ');
  out += indent;
  if (index == 0) {
    out += "step";
  } else {
    put(out, "repeat {}", block.count);
    if (block.var != Var::kNone) {
      put(out, " {}{} from {} step {}", name(block.var),
          block.mirrored   ? " mirrored"
          : block.relative ? " relative"
                           : "",
          block.first, block.step);
    }
  }
  out += " {\n";
  for (const Block::Item& item : block.items) {
    if (item.is_block) {
      put_block(out, mesh, program, item.index);
    } else {
      out += indent + "  ";
      put_node(out, mesh, program, item.index);
    }
  }
  out += indent + "}\n";
}

void put_tensor(std::string& out, const Tensor& t) {
  put(out, "  tensor {} {} {}", quoted_word(t.name), shape_text(t.shape), name(t.init));
  if (t.init == Init::kNormal) put(out, " {}", t.init_std);
  put(out, "{} offset {}", t.decay ? " decay" : "", t.offset);
  if (t.member != 0) put(out, " member {}", t.member);
  switch (t.split.kind) {
    case Split::Kind::kNone:
      break;
    case Split::Kind::kRows:
      out += " rows";
      if (t.piece_rows != 0) put(out, " padded {}", t.piece_rows);
      break;
    case Split::Kind::kColumns:
      put(out, " columns {}", list_text(t.split.segments));
      break;
  }
  out += '\n';
}

void put_unit(std::string& out, const Mesh& mesh, const Unit& u) {
  put(out, "unit {}{}", quoted_word(u.name), u.per_layer ? " per_layer" : "");
  if (u.layers.count != 0) put(out, " from_layer {} layers {}", u.layers.first, u.layers.count);
  if (u.tiles != 1) put(out, " tiles {}", u.tiles);
  put(out, " elements {} decay {}", u.elements, u.decay_elements);
  if (u.shared_elements != 0 || u.shared_from != 0)
    put(out, " shared {} from {}", u.shared_elements, u.shared_from);
  if (!u.experts.empty()) put(out, " experts {}", name(mesh, u.experts));
  put(out, " shard {} over {} flat {}\n", u.shard_elements, name(mesh, u.shards), u.flat_elements);
  for (const Tensor& t : u.tensors) put_tensor(out, t);
}

void put_buffer(std::string& out, const RankClass& c, BufferId id, bool placed) {
  const Buffer& b = c.program.buffers[id];
  put(out, "  buffer @{} {} {} {} {} slot {} slots {}", id, quoted_word(b.name), name(b.tier),
      name(b.category), name(b.dtype), b.slot_size.value, b.slots);
  if (b.persistent) out += " persistent";
  if (b.unpadded.value != 0 || b.shards != 1) {
    put(out, " unpadded {} shards {}", b.unpadded.value, b.shards);
  }
  if (placed) put(out, " at {}", c.placement.offset[id].value);
  out += '\n';
}

void put_home(std::string& out, const Job& job, const Program& program, const UnitHome& home) {
  put(out, "  home {}@{}", quoted_word(job.units[home.unit].name), home.unit);
  if (home.is_frozen) out += " frozen";
  if (home.codes == Codes::kNf4) out += " nf4";
  if (home.codes == Codes::kFp4) out += " fp4";
  const auto state = [&](std::string_view label, const StateHome& s) {
    put(out, " {} {}", label, reference(program, s.buffer));
    if (s.rest) put(out, " then {}", reference(program, *s.rest));
    if (!s.shards.empty()) put(out, " over {}", name(job.mesh, s.shards));
    if (s.every != 1) put(out, " every {}", s.every);
  };
  state("param", home.param);
  state("master", home.master);
  for (std::size_t i = 0; i < home.moments.size(); ++i)
    state(fmt::format("moment{}", i + 1), home.moments[i]);
  out += '\n';
}

void put_class(std::string& out, const Job& job, const RankClass& c) {
  put(out, "class stage {}", c.stage);
  for (const LayerRange& range : c.layers)
    put(out, " first_layer {} layers {}", range.first, range.count);
  if (c.program.unit_layers != 1) put(out, " unit_layers {}", c.program.unit_layers);
  out += '\n';
  if (job.placed) {
    ZPLAN_ASSERT(c.placement.offset.size() == c.program.buffers.size());
    for (std::size_t t = 0; t < kTierCount; ++t) {
      put(out, "  slab {} {} live_peak {}\n", name(static_cast<Tier>(t)), c.placement.slab[t].value,
          c.placement.live_peak[t].value);
    }
  }
  for (BufferId id = 0; id < c.program.buffers.size(); ++id) put_buffer(out, c, id, job.placed);
  for (const UnitHome& home : c.homes) put_home(out, job, c.program, home);
  put_block(out, job.mesh, c.program, 0);
}

}  // namespace

std::string to_text(const Job& job) {
  std::string out = fmt::format("zprog 1\n# model {}\n", quoted_word(job.model));
  put(out, "job {}{} {}\n", quoted_word(job.kernel_set),
      job.launch == LaunchMode::kGraph ? " launch graph" : "", job.placed ? "placed" : "unplaced");
  out += "mesh";
  for (const Axis& axis : job.mesh.axes)
    put(out, " {} {} every {}", axis.name, axis.size, axis.stride);
  if (!job.mesh.gpus.empty()) put(out, "\ngpus {}", joined(job.mesh.gpus, " "));
  out += '\n';
  put(out, "batch global {} micro {} micro_steps {} sequence {}\n", job.global_batch,
      job.micro_batch, job.micro_steps, job.sequence);
  for (const Unit& u : job.units) put_unit(out, job.mesh, u);
  for (const RankClass& c : job.classes) put_class(out, job, c);
  return out;
}

}  // namespace zplan
