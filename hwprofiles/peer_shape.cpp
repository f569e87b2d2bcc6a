#include "hwprofiles/peer_shape.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <vector>

#include "hwprofiles/narrowest_cut.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr int kCube = 8;       // GPUs
constexpr int kCubeLinks = 6;  // of each
// [DGX17] links between two GPUs.
constexpr std::array<std::array<int, kCube>, kCube> kCubeMesh{{{0, 1, 1, 2, 2, 0, 0, 0},
                                                               {1, 0, 2, 1, 0, 2, 0, 0},
                                                               {1, 2, 0, 2, 0, 0, 1, 0},
                                                               {2, 1, 2, 0, 0, 0, 0, 1},
                                                               {2, 0, 0, 0, 0, 1, 1, 2},
                                                               {0, 2, 0, 0, 1, 0, 2, 1},
                                                               {0, 0, 1, 0, 1, 2, 0, 2},
                                                               {0, 0, 0, 1, 2, 1, 2, 0}}};

// Links from place a to place b of a closed row of `size`.
int along(int a, int b, int size) {
  return static_cast<int>((a + 1) % size == b) + static_cast<int>((b + 1) % size == a);
}

}  // namespace

int PeerShape::links() const {
  switch (kind) {
    case PeerKind::kSwitch:
      return 1;
    case PeerKind::kCubeMesh:
      return kCubeLinks;
    case PeerKind::kMesh:
      return gpus - 1;
    case PeerKind::kTorus:
      return 2 * (static_cast<int>(rows > 1) + static_cast<int>(columns > 1));
  }
  ZPLAN_ASSERT(false);
  return 0;
}

int PeerShape::between(int a, int b) const {
  if (a == b) return 0;
  switch (kind) {
    case PeerKind::kSwitch:
    case PeerKind::kMesh:
      return 1;
    case PeerKind::kCubeMesh:
      return kCubeMesh[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
    case PeerKind::kTorus: {
      const bool same_row = a / columns == b / columns, same_column = a % columns == b % columns;
      return same_row      ? along(a % columns, b % columns, columns)
             : same_column ? along(a / columns, b / columns, rows)
                           : 0;
    }
  }
  ZPLAN_ASSERT(false);
  return 0;
}

double ring_share(const PeerShape& shape, std::span<const int> gpus) {
  if (shape.kind == PeerKind::kSwitch || gpus.size() < 2) return 1;
  std::vector<CutEdge> edges;
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = a + 1; b < gpus.size(); ++b)
      if (const int links = shape.between(gpus[a], gpus[b]); links > 0)
        edges.push_back({static_cast<int>(a), static_cast<int>(b), links});
  const std::int64_t cut = narrowest_cut(static_cast<int>(gpus.size()), edges);
  return static_cast<double>(cut) / shape.links();
}

PeerShape read_peer_shape(const JsonNode& node, int gpus) {
  if (node.is_array()) {
    const std::vector<JsonNode> sizes = node.items();
    if (sizes.size() != 2) node.fail_expected("[rows, columns] of a torus");
    PeerShape shape{PeerKind::kTorus, static_cast<int>(sizes[0].integer(1, gpus)),
                    static_cast<int>(sizes[1].integer(1, gpus))};
    if (shape.rows * shape.columns != gpus || gpus < 2) {
      node.fail(fmt::format("expected a torus of the node's {} GPUs, got {} x {}", gpus, shape.rows,
                            shape.columns));
    }
    return shape;
  }
  const std::string kind = node.one_of({"switch", "cube_mesh", "mesh"});
  if (kind == "switch") return {};
  if (kind == "mesh") return peer_shape_of(PeerKind::kMesh, gpus);
  if (gpus > kCube) {
    node.fail(fmt::format("expected {} GPUs in a node whose peer links form a cube mesh, got {}",
                          kCube, gpus));
  }
  return peer_shape_of(PeerKind::kCubeMesh, gpus);
}

PeerShape peer_shape_of(PeerKind kind, int gpus) {
  if (kind == PeerKind::kCubeMesh && gpus == kCube) return {.kind = PeerKind::kCubeMesh};
  const bool meshed = kind == PeerKind::kMesh || kind == PeerKind::kCubeMesh;
  if (!meshed || gpus < 2) return {};
  return {.kind = PeerKind::kMesh, .gpus = gpus};
}

}  // namespace zplan
