// Program: the training step of one rank class as typed nodes on lanes, with repeated blocks; a Job
// (job.h) holds those of all rank classes. Plain data, made by planner/lower, completed by
// planner/place, then read by the memory report, the simulator and the executor.
//
// A Program is a tree. The root block is one training step; the steps themselves are the outermost
// repetition. A block is repeated `count` times and may bind a variable (micro-batch or layer) to
// an affine function of its iteration; views pick their slot by those variables, so L equal layers
// are one body. An edge names a node and says which of its instances must have completed:
//
//   x in blocks (B0=root .. Bk) at iterations (I0=step .. Ik);  edge {y, level c, delta, match}
//   waits for the instance of y at (I0 .. I(c-1), Ic - delta, J, last, last ..)
//   where J (y's first loop below Bc, if any) is its last iteration (kLast), or the iteration of
//   x's loop at depth from_depth (kSame), or count - 1 minus it (kMirror).
//   Ic - delta < 0: no dependency.
//
// Since lanes run in order, waiting for one instance implies all earlier ones of that lane.
// A carry edge (op of step k -> op of step k+1) is an edge with level 0 and delta 1.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "planner/core/units.h"
#include "planner/program/job/mesh.h"
#include "planner/program/job/ops.h"

namespace zplan {

using BufferId = std::uint32_t;
using NodeIndex = std::uint32_t;
using BlockIndex = std::uint32_t;

inline constexpr int kMaxRank = 5;

// Row-major shape of up to five dimensions, in elements.
struct Shape {
  std::array<std::int64_t, kMaxRank> dims{};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> list) {
    for (std::int64_t d : list) dims[static_cast<std::size_t>(rank++)] = d;
  }
  std::int64_t operator[](int i) const { return dims[static_cast<std::size_t>(i)]; }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[static_cast<std::size_t>(i)];
    return n;
  }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// `slots` equal pieces of `slot_size` bytes, contiguous. A persistent buffer lives always; any
// other from its first writer to its last user in program order (see planner/place/lifetime.h).
struct Buffer {
  std::string name;
  Bytes slot_size;  // multiple of alignment(tier)
  std::int32_t slots = 1;
  Tier tier = Tier::kGpu;
  Category category = Category::kActivations;
  DType dtype = DType::kF32;
  bool persistent = false;
  // Payload without padding: `unpadded` bytes of the whole, unsharded content over all slots,
  // divided evenly over `shards` ranks. Zero for buffers that are not model states.
  Bytes unpadded{0};
  std::int32_t shards = 1;

  Bytes size() const { return slot_size * slots; }
};
inline constexpr Bytes kBufferAlignment{256};
// Direct I/O moves whole blocks: buffers on NVMe and their offsets are multiples of this, and so
// are the offsets of host buffers. [assumed] the largest logical block of common drives and file
// systems
inline constexpr Bytes kIoAlignment{4096};
constexpr Bytes alignment(Tier tier) {
  return tier == Tier::kGpu ? kBufferAlignment : kIoAlignment;
}

// Values of the loop variables at an instance of a node.
struct Env {
  std::int64_t micro = 0;  // micro-batch index within the step
  std::int64_t layer = 0;  // global layer index, over Program::unit_layers
  std::int64_t tile = 0;   // piece of an operator that is worked off piece by piece
};

// slot = (base + per_micro * micro + per_layer * layer + per_tile * tile) mod slots, in [0, slots).
struct SlotExpr {
  std::int32_t base = 0;
  std::int32_t per_micro = 0;
  std::int32_t per_layer = 0;
  std::int32_t per_tile = 0;
  std::int64_t at(const Env& env, std::int32_t slots) const {
    std::int64_t raw =
        (base + per_micro * env.micro + per_layer * env.layer + per_tile * env.tile) % slots;
    return raw < 0 ? raw + slots : raw;
  }
  friend bool operator==(const SlotExpr&, const SlotExpr&) = default;
};

// A dense row-major piece of one slot, at byte offset + along(strides, the rank's coordinates).
struct View {
  BufferId buffer = 0;
  Access access = Access::kRead;
  DType dtype = DType::kF32;
  SlotExpr slot;
  Bytes offset{0};
  AxisSteps strides{};  // bytes
  Shape shape;

  Bytes bytes() const { return size_of(dtype) * shape.elements(); }
  // Where it begins within the slot.
  Bytes begin(const MeshPoint& at) const { return offset + Bytes{along(strides, at)}; }
};

enum class Match : std::uint8_t { kLast, kSame, kMirror };
struct Edge {
  NodeIndex node = 0;
  std::int32_t level = 0;
  std::int32_t delta = 0;
  Match match = Match::kLast;
  std::int32_t from_depth = 0;  // only for kSame and kMirror
  bool reuse = false;           // added by placement: two buffers share addresses
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

enum class OpKind : std::uint8_t { kKernel, kCopy, kCollective, kSend, kReceive, kMark };
constexpr bool is_transfer(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kReceive;
}

// Payload of each kind. Operands are views [operands_begin, operands_end) of the Program.
//   kKernel      kernel, attributes as its row in kernels/rows.h says
//   kCopy        operands: source (read), destination (write), same bytes.
//                Between tiers on the lane of that direction (NVMe only to and from the host);
//                within the GPU on the compute lane,
//                within the host on the CPU lane.
//   kCollective  operands: input (read), output (write); in place when both are the same buffer.
//                all_gather: input n elements, output n*size; reduce_scatter: the reverse;
//                all_reduce: equal. broadcast: equal, only the root's input is read; reduce: equal,
//                only the root's output is written; the root is the member of index Node::member.
//                all_to_all: equal, never in place; of `size` equal parts part j of the input goes
//                to member j, and part j of the output comes from it. shift: equal, never in place;
//                the input goes to the next member, that of the last one to the first.
//                Attributes, if any, say that the rows of an all_to_all are those of tokens for
//                experts, and travel once to each node that has one of their experts where the
//                backend can: the choices of a token, experts of a layer, groups of these, groups
//                that a token chooses from (0: all).
//                Sums; ranks are added in index order.
//   kSend        operand: source. peer: the rank that receives
//   kReceive     operand: destination. peer: the rank that sends
//                The k-th send to a peer on a lane meets the k-th receive from it on the
//                partner of that lane.
//   kMark        a named instant of its lane. With an operand it orders, and touches no bytes: a
//                read waits for what writes the view, and what writes it later waits for the mark;
//                an update waits for all that uses it, and all that uses it later waits; so does a
//                scratch, which leaves no content behind.
struct Node {
  Role role{};
  OpKind kind = OpKind::kMark;
  Lane lane = Lane::kCompute;
  KernelId kernel = KernelId::kFillZero;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  // Who takes part in a collective. A kernel or copy with a group is done by the member of index
  // `member` alone, while every rank counts it as done.
  Group group{};
  Peer peer{};
  // Which of the layers of its iteration the node belongs to, or of the iteration that came before
  // in a loop downwards; outside layer loops, the layer that it is named by.
  std::uint16_t member = 0;
  BlockIndex block = 0;          // innermost block that holds the node
  std::uint32_t attributes = 0;  // index into Program::attributes
  std::uint32_t operands_begin = 0, operands_end = 0;
  std::uint32_t edges_begin = 0, edges_end = 0;
};
static_assert(sizeof(Node) <= 48);

// A number that kernels need and that may depend on the rank: base + along(steps, coordinates).
struct Attribute {
  std::int64_t base = 0;
  AxisSteps steps{};

  constexpr Attribute() = default;
  constexpr Attribute(std::int64_t value) : base(value) {}  // the same on all ranks
  constexpr Attribute(std::int64_t value, const AxisSteps& by) : base(value), steps(by) {}
  friend constexpr auto operator<=>(const Attribute&, const Attribute&) = default;
};
inline constexpr std::size_t kMaxAttributes = 8;
using Attributes = std::array<Attribute, kMaxAttributes>;
// As a rank's kernels find them.
using AttributeValues = std::array<std::int64_t, kMaxAttributes>;

constexpr AttributeValues resolve(const Attributes& attributes, const MeshPoint& at) {
  AttributeValues values{};
  for (std::size_t i = 0; i < kMaxAttributes; ++i)
    values[i] = attributes[i].base + along(attributes[i].steps, at);
  return values;
}

enum class Var : std::uint8_t { kNone, kMicro, kLayer, kTile };

// count iterations; at iteration i, var = (relative ? outer value : 0) + first + step * i. A
// mirrored block, which is relative, has the negative of the outer value there: within a loop
// upwards it goes through the same values downwards.
struct Block {
  BlockIndex parent = 0;
  std::int32_t depth = 0;  // root 0
  std::int32_t count = 1;
  Var var = Var::kNone;
  bool relative = false;
  bool mirrored = false;
  std::int32_t first = 0;
  std::int32_t step = 1;
  struct Item {
    bool is_block;
    std::uint32_t index;
  };
  std::vector<Item> items;  // in program order
};
inline constexpr int kMaxDepth = 7;

struct Program {
  // Layers that one iteration of a layer loop goes through: those that are gathered together.
  std::int32_t unit_layers = 1;
  std::vector<Buffer> buffers;
  std::vector<Node> nodes;    // in program order of their first instance
  std::vector<Block> blocks;  // blocks[0] is the root
  std::vector<View> views;
  std::vector<Edge> edges;  // each node's edges are contiguous
  std::vector<Attributes> attributes;

  std::span<const View> operands(const Node& n) const {
    return {views.data() + n.operands_begin, n.operands_end - n.operands_begin};
  }
  const Attributes& attributes_of(const Node& n) const {
    static constexpr Attributes kNone{};
    return n.attributes < attributes.size() ? attributes[n.attributes] : kNone;
  }
  std::span<const Edge> after(const Node& n) const {
    return {edges.data() + n.edges_begin, n.edges_end - n.edges_begin};
  }
};

// Replaces the edges of all nodes; per_node[i] are the edges of node i.
void set_edges(Program& program, const std::vector<std::vector<Edge>>& per_node);

}  // namespace zplan
