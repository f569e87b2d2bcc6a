// Wires as a graph: typed vertices and directed links with a capacity per direction. The wires of a
// node (topology.h) and the network between nodes (fabric.h) are such graphs, searched by
// Boost.Graph.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/units.h"

namespace zplan {

// Nominal capacity per direction and the fraction a well-written transfer reaches.
struct LinkClass {
  BytesPerSecond capacity{};
  double efficiency = 1.0;
  BytesPerSecond effective() const { return capacity * efficiency; }
};

enum class VertexKind : std::uint8_t {
  kGpu,
  kPcieSwitch,
  kNvSwitch,
  kSocket,
  kDram,
  kNvme,
  kNic,
  kFabric,  // the network as a whole
  kSwitch   // of the network
};
struct VertexId {
  std::int32_t index = -1;
  friend constexpr auto operator<=>(VertexId, VertexId) = default;
};
struct LinkId {
  std::int32_t index = -1;
  friend constexpr auto operator<=>(LinkId, LinkId) = default;
};
// Returns where a vertex or a link stands in arrays of one entry each.
inline std::size_t index_of(VertexId id) { return static_cast<std::size_t>(id.index); }
inline std::size_t index_of(LinkId id) { return static_cast<std::size_t>(id.index); }
struct Vertex {
  std::string name;  // "gpu3", "pcie0", "socket1", "dram1", "nvme4", "nic2", "nvswitch", "fabric",
                     // "leaf[2,5]"
  VertexKind kind = VertexKind::kGpu;
  int ordinal = 0;  // among its kind
};
struct Link {
  std::string name;  // "gpu3>pcie0"
  VertexId from, to;
  BytesPerSecond capacity{};
  double efficiency = 1.0;
  BytesPerSecond effective() const { return capacity * efficiency; }
};

// A place where flow enters or leaves, and how much of it at most.
struct Tap {
  VertexId at{};
  BytesPerSecond most{};
};

class WireGraph {
 public:
  WireGraph();
  WireGraph(WireGraph&&) noexcept;
  WireGraph& operator=(WireGraph&&) noexcept;
  ~WireGraph();

  const std::vector<Vertex>& vertices() const { return vertices_; }
  const std::vector<Link>& links() const { return links_; }
  const Vertex& vertex(VertexId id) const;
  const Link& link(LinkId id) const;
  std::optional<VertexId> find(std::string_view name) const;
  std::optional<LinkId> link_between(VertexId from, VertexId to) const;
  // Returns those that leave the vertex.
  std::span<const LinkId> links_of(VertexId from) const;

  VertexId add_vertex(std::string name, VertexKind kind, int ordinal);
  LinkId add_link(VertexId from, VertexId to, const LinkClass& link, std::string name);

  // The links of the path with the least sum of 1/effective bandwidth. End points (all but switches
  // and sockets) are not passed through. Empty when from == to; throws Error when there is no path.
  std::vector<LinkId> route(VertexId from, VertexId to) const;
  // Returns by vertex how many links the shortest path to it has from there, whatever their rate;
  // -1 where there is none. Of graphs whose links lead both ways it is the number to there as well.
  std::vector<int> hops_from(VertexId from) const;
  // Greatest effective rate that can leave `from` (all sending at once) and reach `to` (either).
  BytesPerSecond max_flow(std::span<const Tap> from, std::span<const Tap> to) const;

 private:
  struct Searched;  // the same graph as Boost.Graph has it, whose headers few need

  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<std::vector<LinkId>> out_;  // by vertex
  std::unique_ptr<Searched> searched_;
};

}  // namespace zplan
