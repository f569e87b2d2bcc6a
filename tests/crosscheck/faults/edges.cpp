// Faults in edges. An edge may stand for an order that others bring about as well: of these places
// only those count where happens_before.h finds two accesses without order.
#include "tests/crosscheck/faults/seeded_faults.h"

namespace zplan::seeded {
namespace {

constexpr std::int32_t kNever = 1000;  // reaches back before the first step

bool crosses_steps(const Edge& e) { return e.level == 0 && e.delta > 0; }
bool over_iterations(const Edge& e) { return e.match != Match::kLast; }
void drop(Edge& e) { e.delta = kNever; }

void drop_all(Program& p, NodeIndex n) {
  for (std::uint32_t e = p.nodes[n].edges_begin; e < p.nodes[n].edges_end; ++e) drop(p.edges[e]);
}

}  // namespace

std::vector<Kind> edge_kinds() {
  const auto kind = [](std::string_view name, int seeds, const Places& places) {
    return Kind{Class::kEdge, name, seeds, Form::kPlaced, places};
  };
  using mutation::at_edges;
  return {
      kind("edge dropped", 4,
           at_edges([](const Edge& e) { return !e.reuse && !crosses_steps(e); }, drop)),
      kind("edge between steps dropped", 4, at_edges(crosses_steps, drop)),
      kind("edge of reused bytes dropped", 3,
           at_edges([](const Edge& e) { return e.reuse; }, drop)),
      kind("edge an iteration further back", 3,
           at_edges([](const Edge& e) { return e.level > 0; }, [](Edge& e) { ++e.delta; })),
      kind("edge to the mirrored iteration", 1,
           at_edges(
               over_iterations,
               [](Edge& e) { e.match = e.match == Match::kSame ? Match::kMirror : Match::kSame; })),
      kind("all edges of a node dropped", 2,
           mutation::at_nodes([](const Program& p, const Node& n) { return p.after(n).size() > 1; },
                              drop_all)),
  };
}

}  // namespace zplan::seeded
