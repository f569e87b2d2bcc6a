// Which links a transfer of a rank class loads, and how much.
//
// The dp x tp ranks of a class run in lockstep, so one of them stands for all: the representative
// is the first rank of the node that holds most ranks of the class, and one flow of its bytes
// carries the transfers of all its siblings in that node, those of other groups of the same kind
// included. The weight of a link is what they put on it together:
//
//   weight = sum over the ranks of the class in the node of (bytes on the link / bytes per rank)
//
// What only one member of a group does counts for the ranks with the representative's index in it.
// Ranks are symmetric, so of each kind of link (GPU to PCIe switch, switch to socket, ..) only the
// most loaded one is kept per node: it is the one that limits. Ties go to the first link.
//
//   copy     GPU <-> DRAM of its socket; DRAM <-> drives striped evenly over all of them. A drive
//            reads and writes at its own rates, each alone; writing at its full rate takes 1 -
//            read_beside_write of its time from reads ("NVMe drive", in bytes read). Where the
//            stack has a thread that waits for drives they wait for it, and nothing goes on beside
//   ring     every member sends to the next: over the peer link, at the share of it that the shape
//            of the peer links leaves to these members (peer_shape.h), or twice through DRAM where
//            they have none together. Between islands, nodes or larger domains of fast links, the
//            ring crosses each border once; the k members of an island share that traffic, 1/k on
//            the NIC of each [derived: k rings, each entering and leaving the island at another
//            member]. Of the groups that meet in the node of the representative, the island with
//            fewest members counts as well.
//   pairs    every member sends an equal part to every other: over the peer link or through DRAM as
//            in a ring of its island, and to members of other islands over its NIC
//   shift    every member sends to the next, over the peer link or through DRAM as in a ring of its
//            island; from island to island over the NIC of the member that has its next one there
//   between  pipeline neighbours: as one step of a ring
//   leaves   what leaves a leaf of the network loads the leaf's uplinks (leaf_loads.h)
//
// Beside the links of the topology each node has "host memory": one bus for reads and writes of all
// sockets. A host copy puts its bytes on it once per side in DRAM, a CPU kernel bytes / efficiency.
// Where devices are measured cores of the host there are two more links per node: its cores, and
// what these have in common, both in picoseconds of work (core_time.h).
// Left out: rank placements where siblings of one class load the kept links unequally in several
// nodes, and classes meeting on links of nodes that hold no representative.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/seating.h"
#include "hwprofiles/topology.h"
#include "planner/cost/leaf_loads.h"
#include "planner/program/job/job.h"

namespace zplan {

inline constexpr std::string_view kPeerLink = "GPU peer link";  // CostLink::kind

struct CostLink {
  std::string name;  // "pcie0>socket0", with "node3 " before it in a cluster of several nodes;
                     // "leaf2 rail5 up"
  std::string kind;  // "PCIe uplink", "NIC", "host memory", "leaf uplink" ..
  BytesPerSecond capacity{};
};

struct LinkShare {
  std::uint32_t link = 0;  // index into Wiring::links()
  double weight = 0;       // bytes on the link per byte of the representative
};

// How the members of a group that share an island meet: over peer links at their whole rate, at a
// part of it somewhere, or not all of them over peer links.
enum class PeerUse : std::uint8_t { kWhole, kPart, kNone };

// How far a group reaches.
struct Reach {
  int islands = 1;  // that hold a member; of the widest group where there are several
  PeerUse peers = PeerUse::kWhole;
};

// What a transfer between neighbours goes over.
enum class Way : std::uint8_t { kPeerLink, kHostMemory, kNetwork };

// Where the ranks of a class sit.
struct ClassPlace {
  int node = 0;     // of the representative
  int rank = 0;     // the representative
  int members = 0;  // ranks of the class in that node
  int ranks = 0;    // ranks of the whole job in that node
};

// What each drive could read while it waits for the host, per byte of a transfer to or from all.
double drive_waits(const Cluster& cluster);

class Wiring {
 public:
  Wiring(const Job& job, const Cluster& cluster);

  const std::vector<CostLink>& links() const { return links_; }
  const ClassPlace& place(int stage) const { return places_[static_cast<std::size_t>(stage)]; }
  Reach reach(const Group& group, int stage);
  // The longest way between a rank of one stage and its neighbour in the other.
  Way way(int stage, int other) const;
  int ranks_per_node() const { return seating_.per_node(); }
  bool has_peer_link() const { return !peer_out_.empty(); }

  // Where `owners` has axes, only the ranks with the representative's index along them take part.
  std::vector<LinkShare> copy(int stage, Tier from, Tier to, AxisSet owners);
  std::vector<LinkShare> host_stream(int stage, AxisSet owners);
  // `ranks` in the node of the representative work at once, each on so many threads.
  struct CoreUse {
    int ranks = 1, threads = 1;
    bool product = false;
  };
  std::vector<LinkShare> cores(int stage, const CoreUse& use);
  // Ranks of the class in the node of its representative.
  int ranks_beside(int stage, AxisSet owners) const;
  // `alone`: only the representative's group meets, on a network without leaves.
  std::vector<LinkShare> ring(const Group& group, int stage, bool alone = false);
  // The same of an all-to-all.
  std::vector<LinkShare> pairs(const Group& group, int stage, bool alone = false);
  // The same of a shift.
  std::vector<LinkShare> shift(const Group& group, int stage, bool alone = false);
  std::vector<LinkShare> between(int from_stage, int to_stage);

 private:
  using Route = std::vector<LinkId>;
  // For each node of interest: the bytes on each link of its topology, then the time of each drive,
  // and last the bytes of host memory.
  using Loads = std::map<int, std::vector<double>>;
  // The ranks of one group, ascending, how many of them each node holds, by node, and where those
  // of each island begin.
  struct Seats {
    std::vector<int> ranks;
    std::vector<std::pair<int, int>> members;
    std::vector<std::size_t> begins;
    bool is_in(int node) const;
    std::size_t islands() const { return begins.size(); }
    std::span<const int> island(std::size_t i) const;
    int least_node(const Seating& seating) const;  // of the island with fewest members
  };

  void find_routes();
  void find_places();
  // Ranks of the class in the node of its representative that it stands for.
  std::vector<int> siblings(int stage, AxisSet owners) const;
  std::vector<Seats> groups(const Group& group, int stage) const;
  // All of them or the representative's.
  std::vector<Seats> groups(const Group& group, int stage, bool alone) const;
  Seats seats_of(std::vector<int> ranks) const;
  std::vector<int> nodes_of_interest(const Group& group, int stage,
                                     const std::vector<Seats>& all) const;

  Loads loads_at(const std::vector<int>& nodes) const;
  // The share of the peer links' rate that a ring of these ranks of one island gets; 0: none.
  double peer_share(std::span<const int> ranks) const;
  // The share that one step of that ring gets.
  double step_share(int from, int to, double ring) const {
    return seating_.domain_of(from) == seating_.domain_of(to) ? ring : 0;
  }
  Way way_between(int from, int to) const;

  void add(Loads& loads, int node, std::span<const LinkId> route, double weight) const;
  void add_host(Loads& loads, int node, double weight) const;
  void add_step(Loads& loads, int from, int to, double share, double bytes = 1) const;
  void add_steps(Loads& loads, std::span<const int> ranks) const;
  // From one rank to another, over peer links, through DRAM or over the network.
  void add_transfer(Loads& loads, LeafLoads* leaves, int from, int to) const;
  void add_pairs(Loads& loads, std::span<const int> ranks, double bytes) const;
  void add_copy(Loads& loads, int node, int gpu, Tier from, Tier to);
  void add_drives(Loads& loads, int node, int gpu, bool reads);
  void add_exit(Loads& loads, int rank, double weight) const;
  void add_entry(Loads& loads, int rank, double weight) const;
  std::vector<LinkShare> busiest(const Loads& loads);
  std::vector<LinkShare> busiest(const Loads& loads, const LeafLoads& leaves);
  std::uint32_t link_index(int node, std::size_t wire);
  CostLink describe(int node, std::size_t wire) const;
  CostLink describe_leaf(std::size_t wire) const;

  const Job& job_;
  const Cluster& cluster_;
  const Seating seating_;
  Topology topology_;
  std::vector<ClassPlace> places_;                               // by stage
  std::vector<Route> to_dram_, from_dram_, out_, in_;            // by GPU of a node
  std::vector<LinkId> peer_out_, peer_in_;                       // by GPU; empty without peer links
  std::map<std::pair<VertexId, VertexId>, Route> drive_routes_;  // between drives and DRAM, met
  std::map<std::pair<Group, int>, Reach> reaches_;               // met so far
  std::vector<CostLink> links_;                                  // met so far
  std::map<std::pair<int, std::size_t>, std::uint32_t> index_;   // (node, wire) -> links_
};

}  // namespace zplan
