// The narrowest cut of a network whose edges carry as much one way as the other: of all ways to
// part its vertices in two, the least that the edges between the parts carry.
//
// Any cut parts the two ends of some edge of a tree that spans the network, and the greatest flow
// between two vertices is the narrowest cut that parts them [Ford56]. So the least of these flows
// is looked for, each by shortest ways and no further than the least one so far, which is the edges
// of one vertex to begin with. Where no cut is narrower than that, as in tori and meshes, each flow
// stays near its edge.
#pragma once

#include <cstdint>
#include <vector>

namespace zplan {

struct CutEdge {
  int a = 0, b = 0;           // vertices, not the same
  std::int64_t capacity = 0;  // each way
};

// `vertices`: at least two, numbered from 0. Returns 0 where they do not hang together.
std::int64_t narrowest_cut(int vertices, const std::vector<CutEdge>& edges);

}  // namespace zplan
