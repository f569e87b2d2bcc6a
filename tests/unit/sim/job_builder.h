// Builds small Jobs by hand: ops with known bytes, loops, explicit edges. Not real training steps:
// operands exist only to say how many bytes an op moves.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "planner/program/job/job.h"
#include "planner/program/job/program.h"
#include "tests/support/meshes.h"

namespace zplan {

class ClassBuilder {
 public:
  ClassBuilder() { program_.blocks.emplace_back(); }

  // Reads and writes `bytes` bytes: on small_machine() a GPU lane takes that many picoseconds.
  NodeIndex stream(Lane lane, std::int64_t bytes, std::vector<Edge> after = {}) {
    Node node{.kind = OpKind::kKernel, .lane = lane, .kernel = KernelId::kFillZero};
    return append(node, {view(Tier::kGpu, Access::kWrite, bytes)}, std::move(after));
  }
  // x[t,k] w[k,n]
  NodeIndex matmul(std::int64_t t, std::int64_t k, std::int64_t n, std::vector<Edge> after = {}) {
    Node node{.kind = OpKind::kKernel, .kernel = KernelId::kLinearForward};
    std::vector<View> views;
    for (const Shape& shape : {Shape{t, k}, Shape{k, n}, Shape{n}, Shape{t, n}, Shape{1}}) {
      views.push_back(view(Tier::kGpu, Access::kRead, 4 * shape.elements()));
      views.back().shape = shape;
    }
    views.back().access = Access::kScratch;
    return append(node, views, std::move(after));
  }
  // Adds n elements to n others on the CPU: 12 n bytes, n flop.
  NodeIndex accumulate_on_cpu(std::int64_t n, std::vector<Edge> after = {}) {
    Node node{.kind = OpKind::kKernel, .lane = Lane::kCpu, .kernel = KernelId::kAccumulate};
    return append(
        node, {view(Tier::kCpu, Access::kRead, 4 * n), view(Tier::kCpu, Access::kUpdate, 4 * n)},
        std::move(after));
  }
  NodeIndex copy(Tier from, Tier to, std::int64_t bytes, std::vector<Edge> after = {}) {
    Node node{.kind = OpKind::kCopy, .lane = lane_of(from, to)};
    return append(node, {view(from, Access::kRead, bytes), view(to, Access::kWrite, bytes)},
                  std::move(after));
  }
  // In place on a buffer of `full` bytes.
  NodeIndex collective(CollectiveKind kind, const Group& group, std::int64_t full,
                       std::vector<Edge> after = {}, Lane lane = Lane::kCommGather) {
    Node node{.kind = OpKind::kCollective, .lane = lane, .collective = kind, .group = group};
    View out = view(Tier::kGpu, Access::kUpdate, full);
    return append(node, {out, out}, std::move(after));
  }
  // `to` and `from` are stages, from which make_job counts the steps.
  NodeIndex send(int to, std::int64_t bytes, std::vector<Edge> after = {},
                 Lane lane = Lane::kSendForwardUp) {
    Node node{.kind = OpKind::kSend, .lane = lane, .peer = testing_support::stage_at(to)};
    return append(node, {view(Tier::kGpu, Access::kRead, bytes)}, std::move(after));
  }
  NodeIndex receive(int from, std::int64_t bytes, std::vector<Edge> after = {},
                    Lane lane = Lane::kReceiveForwardUp) {
    Node node{.kind = OpKind::kReceive, .lane = lane, .peer = testing_support::stage_at(from)};
    return append(node, {view(Tier::kGpu, Access::kWrite, bytes)}, std::move(after));
  }
  NodeIndex mark(Lane lane, std::vector<Edge> after = {}) {
    return append(Node{.lane = lane}, {}, std::move(after));
  }

  void repeat(int count, const std::function<void()>& body, Var var = Var::kMicro) {
    const auto index = static_cast<BlockIndex>(program_.blocks.size());
    Block block;
    block.parent = current_;
    block.depth = depth() + 1;
    block.count = count;
    block.var = var;
    program_.blocks.push_back(block);
    program_.blocks[current_].items.push_back({true, index});
    const BlockIndex outer = std::exchange(current_, index);
    body();
    current_ = outer;
  }
  int depth() const { return program_.blocks[current_].depth; }
  NodeIndex next() const { return static_cast<NodeIndex>(program_.nodes.size()); }
  void add_edge(NodeIndex node, Edge edge) { edges_[node].push_back(edge); }

  // Depth of the innermost block that holds both nodes.
  int common_depth(NodeIndex a, NodeIndex b) const {
    int depth = 0;
    while (loop_at(a, depth + 1) != 0 && loop_at(a, depth + 1) == loop_at(b, depth + 1)) ++depth;
    return depth;
  }
  // Whether both nodes lie in a loop at this depth, of as many iterations.
  bool loops_match(NodeIndex a, NodeIndex b, int depth) const {
    const BlockIndex of_a = loop_at(a, depth), of_b = loop_at(b, depth);
    return of_a != 0 && of_b != 0 && program_.blocks[of_a].count == program_.blocks[of_b].count;
  }

  Program finish() {
    set_edges(program_, edges_);
    return program_;
  }

 private:
  // The block at this depth around a node; 0 where the node lies less deep.
  BlockIndex loop_at(NodeIndex node, int depth) const {
    BlockIndex block = program_.nodes[node].block;
    while (program_.blocks[block].depth > depth) block = program_.blocks[block].parent;
    return program_.blocks[block].depth == depth ? block : 0;
  }
  static Lane lane_of(Tier from, Tier to) {
    if (from == Tier::kNvme) return Lane::kIoRead;
    if (to == Tier::kNvme) return Lane::kIoWrite;
    if (from == to) return to == Tier::kGpu ? Lane::kCompute : Lane::kCpu;
    return to == Tier::kGpu ? Lane::kH2d : Lane::kD2h;
  }
  View view(Tier tier, Access access, std::int64_t bytes) {
    const auto id = static_cast<BufferId>(program_.buffers.size());
    Buffer buffer;
    buffer.name = "b" + std::to_string(id);
    buffer.slot_size = round_up(Bytes{bytes}, kBufferAlignment);
    buffer.tier = tier;
    program_.buffers.push_back(buffer);
    View result;
    result.buffer = id;
    result.access = access;
    result.shape = Shape{bytes / 4};
    return result;
  }
  NodeIndex append(Node node, const std::vector<View>& views, std::vector<Edge> after) {
    const NodeIndex index = next();
    node.role = {Phase::kForward, static_cast<Part>(index % 20), static_cast<Action>(index / 20)};
    node.block = current_;
    node.operands_begin = static_cast<std::uint32_t>(program_.views.size());
    program_.views.insert(program_.views.end(), views.begin(), views.end());
    node.operands_end = static_cast<std::uint32_t>(program_.views.size());
    program_.nodes.push_back(node);
    program_.blocks[current_].items.push_back({false, index});
    edges_.push_back(std::move(after));
    return index;
  }

  Program program_;
  BlockIndex current_ = 0;
  std::vector<std::vector<Edge>> edges_;
};

inline Job make_job(std::vector<ClassBuilder> stages, int dp = 1, int tp = 1) {
  Job job;
  const auto pp = static_cast<std::int32_t>(stages.size());
  job.mesh = testing_support::mesh_of({.dp = dp, .tp = tp, .pp = pp});
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    RankClass& rank_class = job.classes.emplace_back();
    rank_class.stage = static_cast<std::int32_t>(stage);
    rank_class.program = stages[stage].finish();
    for (Node& node : rank_class.program.nodes)
      if (node.kind == OpKind::kSend || node.kind == OpKind::kReceive)
        node.peer.step = static_cast<std::int8_t>(node.peer.step - static_cast<int>(stage));
  }
  return job;
}

inline Job make_job(ClassBuilder stage, int dp = 1, int tp = 1) {
  return make_job(std::vector<ClassBuilder>{std::move(stage)}, dp, tp);
}

}  // namespace zplan
