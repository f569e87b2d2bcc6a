// How the peer links of a node's GPUs run, and what a ring of some of them gets.
//
//   switch     any GPU reaches any other with all its links
//   cube_mesh  eight GPUs with six links each, two of them along some edges [DGX17]
//   mesh       as many links to each other GPU of the node
//   torus      rows x columns, links to the four neighbours; a dimension of two has both links to
//              the one neighbour, a dimension of one has none
//
// The profile states the rate of all peer links of a GPU together. A ring runs over links between
// its members only, so of that rate it gets
//   share = narrowest cut among the members (narrowest_cut.h) / links of a GPU
// and nothing where the members do not hang together. [derived] All bytes of a ring cross each cut
// of its members; the bound is reached by whole cube meshes (three rings in both directions), their
// halves, whole tori (two rings) and rows and columns of them, and whole meshes, whose directed
// links are rings through all GPUs except among four or six with one link each. Two neighbours get
// the links between them.
// Left out: groups whose links allow fewer rings than that; transfers that pass through a third
// GPU: those go through host memory.
#pragma once

#include <cstdint>
#include <span>

#include "planner/core/json_reader.h"

namespace zplan {

enum class PeerKind : std::uint8_t { kSwitch, kCubeMesh, kTorus, kMesh };

struct PeerShape {
  PeerKind kind = PeerKind::kSwitch;
  int rows = 0, columns = 0;  // of a torus
  int gpus = 0;               // of a mesh

  int links() const;                // of one GPU; 1 at a switch
  int between(int a, int b) const;  // links of GPU a that lead to GPU b; 1 at a switch
};

// Of the rate of a GPU's peer links, what a ring of these GPUs of a node gets; 0: no ring.
double ring_share(const PeerShape& shape, std::span<const int> gpus);

// "switch", "cube_mesh", "mesh", or [rows, columns] of a torus, for a node of `gpus`.
PeerShape read_peer_shape(const JsonNode& node, int gpus);

// How the peer links of `gpus` of a kind run whose whole node has that shape. Boards of fewer than
// eight GPUs that form cube meshes in eights are meshes [DGX17].
PeerShape peer_shape_of(PeerKind kind, int gpus);

}  // namespace zplan
