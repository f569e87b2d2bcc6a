// The wires of one node: typed vertices and directed links with a capacity per direction.
//
//   gpu --- nvswitch                    (all peer links of a GPU, when it has any)
//   gpu --- pcie switch --- socket --- dram
//            |               |  \--- nvme drives (striped over sockets)
//            nic --- fabric  |
//                            other sockets (full mesh)
//
// GPUs of a PCIe switch share its uplink: this is what makes sixteen GPUs share 48 GB/s on a DGX-2
// while one alone gets 12 [Rajbhandari21 Fig.2b]. The NICs of a switch are dealt out to its GPUs in
// order; where there are fewer NICs than GPUs, neighbours share one. The fabric between nodes is
// non-blocking: a transfer between nodes takes routes_out(gpu) on one, an equal part of it each,
// and routes_in(gpu) on the other; leaf switches are not part of the node (network.h). GPUs, DRAM,
// drives, NICs and the fabric are end points; a route never passes through one. Left out: read and
// write sharing one DRAM bus (each direction has the full capacity), PCIe ordering effects. Peer
// links of another shape than a switch stand here as a star: who uses them counts in what the shape
// leaves (peer_shape.h); max_flow and bisection do not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hwprofiles/peer_shape.h"
#include "hwprofiles/wire_graph.h"
#include "planner/core/units.h"

namespace zplan {

// A node built from equal parts; what hwprofiles/catalogue/*.json says.
struct TopologySpec {
  int sockets = 1;
  int switches_per_socket = 1;
  int gpus_per_switch = 1;
  int nics_per_switch = 0;
  int nvme_drives = 0;                // drive i hangs on socket i % sockets
  std::optional<LinkClass> gpu_peer;  // gpu <-> nvswitch; absent: no peer link
  PeerShape peer_shape;               // how the peer links really run
  LinkClass gpu_pcie;                 // gpu <-> pcie switch
  LinkClass pcie_uplink;              // pcie switch <-> socket
  LinkClass dram;                     // socket <-> its dram
  LinkClass socket_peer;              // socket <-> socket
  LinkClass nic_pcie;                 // pcie switch <-> nic
  LinkClass nic;                      // nic <-> fabric
  // The rings of one group leave a node at this rate at most: so much was measured of a
  // communication library that serves them with one thread or few channels. Groups beside each
  // other have their own. Nothing: the ports decide.
  std::optional<BytesPerSecond> ring_out;
  LinkClass nvme_read;   // drive -> socket
  LinkClass nvme_write;  // socket -> drive

  int gpus() const { return sockets * switches_per_socket * gpus_per_switch; }
  int nics() const { return sockets * switches_per_socket * nics_per_switch; }
};

class Topology {
 public:
  explicit Topology(const TopologySpec& spec);

  const WireGraph& graph() const { return graph_; }
  const std::vector<Vertex>& vertices() const { return graph_.vertices(); }
  const std::vector<Link>& links() const { return graph_.links(); }
  const Vertex& vertex(VertexId id) const { return graph_.vertex(id); }
  const Link& link(LinkId id) const { return graph_.link(id); }

  int gpu_count() const { return static_cast<int>(gpus_.size()); }
  VertexId gpu(int gpu) const;
  VertexId socket_of(int gpu) const;
  VertexId dram_of(int gpu) const;                   // the DRAM of its socket
  std::span<const VertexId> nics_of(int gpu) const;  // its own or shared ones; none without NICs
  const std::vector<VertexId>& nvme_drives() const { return nvme_; }
  const std::vector<VertexId>& nics() const { return nics_; }
  const std::vector<VertexId>& drams() const { return drams_; }
  std::optional<VertexId> fabric() const { return fabric_; }

  // Costs a shortest-path search: keep the result.
  std::vector<LinkId> route(VertexId from, VertexId to) const { return graph_.route(from, to); }
  // gpu -> NIC -> fabric, and back, for each of its NICs. Throws Error on a node without NICs.
  std::vector<std::vector<LinkId>> routes_out(int gpu) const;
  std::vector<std::vector<LinkId>> routes_in(int gpu) const;

  // Effective rate from one half of the GPUs, [0, n/2), to the other; 0 with a single GPU.
  BytesPerSecond bisection() const;

 private:
  VertexId add_vertex(VertexKind kind, const std::string& prefix, int ordinal);
  void add_links(VertexId a, VertexId b, LinkClass forth, LinkClass back);
  void add_socket(const TopologySpec& spec, int socket);
  void add_switch(const TopologySpec& spec, int socket);
  std::span<const VertexId> nics_or_fail(int gpu) const;

  WireGraph graph_;
  std::vector<VertexId> gpus_, sockets_, drams_, nvme_, nics_;
  int switch_count_ = 0;
  std::vector<int> gpu_socket_;                // per gpu: index into sockets_
  std::vector<std::pair<int, int>> gpu_nics_;  // per gpu: the first index into nics_, and how many
  std::optional<VertexId> nvswitch_, fabric_;
};

}  // namespace zplan
