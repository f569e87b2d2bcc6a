#include "hwprofiles/wire_graph.h"

#include <gtest/gtest.h>

#include <array>

#include "planner/core/error.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

// a - s - t - b, with a faster way from s to t over u, and c that hangs on nothing.
struct Small {
  WireGraph graph;
  VertexId a = graph.add_vertex("a", VertexKind::kGpu, 0);
  VertexId b = graph.add_vertex("b", VertexKind::kGpu, 1);
  VertexId c = graph.add_vertex("c", VertexKind::kGpu, 2);
  VertexId s = graph.add_vertex("s", VertexKind::kSwitch, 0);
  VertexId t = graph.add_vertex("t", VertexKind::kSwitch, 1);
  VertexId u = graph.add_vertex("u", VertexKind::kSwitch, 2);

  Small() {
    both(a, s, 100);
    both(s, t, 10);
    both(s, u, 100);
    both(u, t, 100);
    both(t, b, 100);
  }
  void both(VertexId x, VertexId y, double rate) {
    graph.add_link(x, y, {{rate}, 1}, graph.vertex(x).name + '>' + graph.vertex(y).name);
    graph.add_link(y, x, {{rate}, 1}, graph.vertex(y).name + '>' + graph.vertex(x).name);
  }
  std::string way(VertexId from, VertexId to) const {
    std::string names;
    for (const LinkId id : graph.route(from, to)) names += graph.link(id).name + ' ';
    return names;
  }
};

TEST(WireGraph, RoutesTakeTheLeastTimeNotTheFewestLinks) {
  const Small small;
  EXPECT_EQ(small.way(small.a, small.b), "a>s s>u u>t t>b ");
  EXPECT_EQ(small.way(small.a, small.a), "");
}

TEST(WireGraph, HopsAreTheFewestLinks) {
  const Small small;
  EXPECT_EQ(small.graph.hops_from(small.a), (std::vector<int>{0, 3, -1, 1, 2, 2}));
}

TEST(WireGraph, EndPointsAreNotPassedThrough) {
  Small small;
  const VertexId d = small.graph.add_vertex("d", VertexKind::kGpu, 3);
  small.both(small.b, d, 100);
  EXPECT_EQ(testing_support::message_of([&] { small.way(small.a, d); }),
            "wires: expected a path from a to d, got none");
  EXPECT_EQ(testing_support::message_of([&] { small.way(small.a, small.c); }),
            "wires: expected a path from a to c, got none");
}

TEST(WireGraph, MaxFlowIsTheNarrowestCutAndNoMoreThanTheTapsGive) {
  const Small small;
  const auto flow = [&](double most) {
    const std::array from{Tap{small.a, {most}}}, to{Tap{small.b, {1e9}}};
    return small.graph.max_flow(from, to).value;
  };
  EXPECT_EQ(flow(1e9), 100);
  EXPECT_EQ(flow(30), 30);
}

}  // namespace
}  // namespace zplan
