// Which wires a transfer of a rank class loads, and how much; for all plans with one mesh on one
// cluster, for which it is the same.
//
// The dp x tp ranks of a class run in lockstep, so one of them stands for all: the representative
// (seats.h), and one flow of its bytes carries the transfers of all its siblings in its node, those
// of other groups of the same kind included. The weight of a wire is what they put on it together:
//
//   weight = sum over the ranks of the class in the node of (bytes on the wire / bytes per rank)
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
//   network  what goes from node to node loads the links of the network (fabric_loads.h). Where a
//            port cannot reach the other it leaves by another port of the node, to which it goes
//            over a peer link or over PCIe
//
// A host copy puts its bytes on the host memory once per side in DRAM, a CPU kernel bytes /
// efficiency.
// Left out: rank placements where siblings of one class load the kept links unequally in several
// nodes, and classes meeting on links of nodes that hold no representative.
//
// To find it takes a walk over all ranks of a stage, so each answer is remembered, by all that it
// was asked with. Several threads may ask at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/remembered.h"
#include "planner/cost/node_wires.h"
#include "planner/cost/pattern.h"
#include "planner/cost/seats.h"
#include "planner/cost/wire_loads.h"

namespace zplan {

// How the members of a group that share an island meet: over peer links at their whole rate, at a
// part of it somewhere, or not all of them over peer links.
enum class PeerUse : std::uint8_t { kWhole, kPart, kNone };

// How far a group reaches.
struct Reach {
  int islands = 1;  // that hold a member; of the widest group where there are several
  PeerUse peers = PeerUse::kWhole;
};

class MeshWires {
 public:
  // `cluster` must outlive it, and `node` be of it. Throws Error when it has too few devices.
  MeshWires(const Mesh& mesh, const Cluster& cluster, std::shared_ptr<NodeWires> node);
  ~MeshWires();

  const NodeWires& node() const { return *node_; }
  const Seats& seats() const { return seats_; }

  // By node and wire. Throws Error where the cluster lacks a link.
  const std::vector<WireShare>& shares(const Pattern& pattern);
  Reach reach(const Group& group, int stage);
  // The longest way between a rank of one stage and its neighbour in the other.
  Way way(int stage, int other);
  // Ranks of the class in the node of its representative.
  int ranks_beside(int stage, AxisSet owners);

 private:
  std::vector<WireShare> find_shares(const Pattern& pattern);
  std::vector<WireShare> copy(const Pattern& pattern);
  std::vector<WireShare> host_stream(const Pattern& pattern);
  std::vector<WireShare> cores(const Pattern& pattern) const;
  // What each group that meets puts on wires; without the network where it meets alone.
  template <typename Put>
  std::vector<WireShare> of_groups(const Pattern& pattern, Put put);
  std::vector<WireShare> ring(const Pattern& pattern);
  std::vector<WireShare> pairs(const Pattern& pattern);
  std::vector<WireShare> shift(const Pattern& pattern);
  std::vector<WireShare> between(int from_stage, int to_stage);
  Reach find_reach(const Group& group, int stage) const;
  PeerUse peer_use(std::span<const int> island) const;
  Way find_way(int stage, int other) const;

  const Cluster& cluster_;
  const std::shared_ptr<NodeWires> node_;
  const Seats seats_;
  Remembered<Pattern, std::vector<WireShare>> shares_;
  Remembered<std::pair<Group, int>, Reach> reaches_;  // by the first stage of the group
  Remembered<std::pair<int, int>, Way> ways_;
  Remembered<std::pair<int, AxisSet>, int> beside_;
};

}  // namespace zplan
