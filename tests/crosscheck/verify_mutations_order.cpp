// Faults in edges and in communication.
#include <utility>

#include "planner/program/instances/edges.h"
#include "planner/program/job/meetings.h"
#include "tests/crosscheck/verify_mutations.h"

namespace zplan::mutation {
namespace {

// An edge without effect: it reaches back before the first step.
constexpr std::int32_t kNever = 1000;

// Exchanges what two nodes do, and derives the edges anew.
void exchange(Program& p, NodeIndex a, NodeIndex b) {
  std::swap(p.nodes[a], p.nodes[b]);
  std::swap(p.nodes[a].block, p.nodes[b].block);
  derive_data_edges(p);
}

// Neighbouring collectives over stages, in the other order on one class.
Changes swap_collectives(const Job& job) {
  const auto spans = [&](const Node& n) {
    return n.kind == OpKind::kCollective && spans_stages(job.mesh, n.group);
  };
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    for (NodeIndex a = 0; a < p.nodes.size(); ++a)
      for (NodeIndex b = a + 1; b < p.nodes.size(); ++b)
        if (spans(p.nodes[a]) && spans(p.nodes[b]))
          result.push_back([=](Job& j) { exchange(j.classes[c].program, a, b); });
  }
  return result;
}

}  // namespace

std::vector<Mutation> edge_mutations() {
  const auto data = [](const Edge& e) { return !e.reuse; };
  const auto reuse = [](const Edge& e) { return e.reuse; };
  return {
      {kind("data edge dropped"),
       {"without waiting for"},
       at_edges(data, [](Edge& e) { e.delta = kNever; })},
      {kind("reuse edge dropped"),
       {"on the same bytes"},
       at_edges(reuse, [](Edge& e) { e.delta = kNever; })},
      {kind("edge one iteration further back"),
       {"without waiting for"},
       at_edges(data, [](Edge& e) { ++e.delta; })},
      {kind("edge to the node before"),
       {"without waiting for"},
       at_edges([](const Edge& e) { return e.node > 0 && e.match == Match::kLast; },
                [](Edge& e) { --e.node; })},
      {kind("edge to an iteration ahead"),
       {"iterations ahead"},
       at_edges(data, [](Edge& e) { e.delta = -1; })},
      {kind("edge without a common block"),
       {"no common block"},
       at_edges(data, [](Edge& e) { e.level = kMaxDepth; })},
      {kind("edge to nowhere"),
       {"waits for node"},
       at_edges(data, [](Edge& e) { e.node = 1u << 30; })},
      {kind("edge onto itself"),
       {"not earlier in program order"},
       at_nodes([](const Program& p, const Node& n) { return !p.after(n).empty(); },
                [](Program& p, NodeIndex n) {
                  p.edges[p.nodes[n].edges_begin] = {.node = n,
                                                     .level = p.blocks[p.nodes[n].block].depth};
                })},
  };
}

std::vector<Mutation> communication_mutations() {
  return {
      {kind("receive missing"), {"is left over"}, at_kind(OpKind::kReceive, become_mark)},
      {kind("send missing"), {"is left over"}, at_kind(OpKind::kSend, become_mark)},
      {kind("send half as large"),
       {" meets "},
       at_kind(OpKind::kSend, [](Program& p, NodeIndex n) { halve(operand(p, n, 0)); })},
      {kind("receive from the stage after the next"),
       {"with no other stage", "is left over", "leads the other way"},
       at_kind(OpKind::kReceive, [](Program& p, NodeIndex n) { p.nodes[n].peer.step += 2; })},
      {kind("one micro-batch less on one stage"),
       {"is left over"},
       [](const Job& j) {
         Changes result;
         for (std::size_t c = 0; c < j.classes.size(); ++c)
           for (BlockIndex b = 0; b < j.classes[c].program.blocks.size(); ++b)
             if (j.classes[c].program.blocks[b].var == Var::kMicro &&
                 j.classes[c].program.blocks[b].count > 1)
               result.push_back([=](Job& k) { --k.classes[c].program.blocks[b].count; });
         return result;
       }},
      {kind("collective of the wrong size"),
       {" ranks of "},
       at_nodes(
           [](const Program& p, const Node& n) {
             return n.kind == OpKind::kCollective && p.operands(n)[0].shape.elements() > 1;
           },
           [](Program& p, NodeIndex n) { halve(operand(p, n, 0)); })},
      {kind("collective of another group"),
       {" ranks of ", "is left over"},
       [](const Job& job) {
         Changes result;
         const Group world{job.mesh.all()};
         for (std::size_t c = 0; c < job.classes.size(); ++c)
           for (NodeIndex n = 0; n < job.classes[c].program.nodes.size(); ++n)
             if (job.classes[c].program.nodes[n].kind == OpKind::kCollective)
               result.push_back([=](Job& j) { j.classes[c].program.nodes[n].group = world; });
         return result;
       }},
      {kind("collective of several stages on the lane of those within a layer"),
       {"on lane comm_tensor"},
       [](const Job& job) {
         Changes result;
         for (std::size_t c = 0; c < job.classes.size(); ++c)
           for (NodeIndex n = 0; n < job.classes[c].program.nodes.size(); ++n) {
             const Node& node = job.classes[c].program.nodes[n];
             if (node.kind == OpKind::kCollective && spans_stages(job.mesh, node.group))
               result.push_back(
                   [=](Job& j) { j.classes[c].program.nodes[n].lane = Lane::kCommTensor; });
           }
         return result;
       }},
      {kind("collective missing on one stage"),
       {"is left over"},
       at_kind(OpKind::kCollective, become_mark)},
      {kind("collective in place on another part"),
       {"rank's own part"},
       at_nodes(
           [](const Program& p, const Node& n) {
             return n.kind == OpKind::kCollective && n.collective != CollectiveKind::kAllReduce &&
                    p.operands(n)[0].buffer == p.operands(n)[1].buffer;
           },
           [](Program& p, NodeIndex n) {
             operand(p, n, 0).strides = operand(p, n, 1).strides = {};
           })},
      {kind("collectives swapped on one stage"),
       {"waits in a circle", "without waiting for", "before it is written"},
       swap_collectives},
  };
}

}  // namespace zplan::mutation
