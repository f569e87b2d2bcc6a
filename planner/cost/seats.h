// Who sits where: the ranks of a mesh on the nodes and islands of a cluster, which of a rank class
// is its representative, and how near ranks are to each other.
//
// The representative of a class is the first rank of the node that holds most ranks of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/seating.h"
#include "planner/program/job/mesh.h"

namespace zplan {

// Where the ranks of a class sit.
struct ClassPlace {
  int node = 0;     // of the representative
  int rank = 0;     // the representative
  int members = 0;  // ranks of the class in that node
  int ranks = 0;    // ranks of the whole job in that node
};

// What a transfer between neighbours goes over.
enum class Way : std::uint8_t { kPeerLink, kHostMemory, kNetwork };

// The ranks of one group, ascending, how many of them each node holds, by node, and where those of
// each island begin.
struct GroupSeats {
  std::vector<int> ranks;
  std::vector<std::pair<int, int>> members;
  std::vector<std::size_t> begins;
  bool is_in(int node) const;
  std::size_t islands() const { return begins.size(); }
  std::span<const int> island(std::size_t i) const;
  int least_node(const Seating& seating) const;  // of the island with fewest members
};

// Nothing of it changes once it is built.
class Seats {
 public:
  // Throws Error when the cluster, which must outlive it, has too few devices.
  Seats(const Mesh& mesh, const Cluster& cluster);

  const Mesh& mesh() const { return mesh_; }
  const Seating& seating() const { return seating_; }
  const ClassPlace& place(int stage) const { return places_[static_cast<std::size_t>(stage)]; }
  // Ranks of the class in the node of its representative that it stands for. Where `owners` has
  // axes, only those with the representative's index along them.
  std::vector<int> siblings(int stage, AxisSet owners) const;
  // Of all groups that have a member of the stage, or of the representative's alone.
  std::vector<GroupSeats> groups(const Group& group, int stage, bool alone = false) const;
  // Nodes whose links matter to the group: those of the representatives of its classes and, of the
  // groups that meet there, those of the islands with fewest members.
  std::vector<int> nodes_of_interest(const Group& group, int stage,
                                     const std::vector<GroupSeats>& all) const;

  // The share of the peer links' rate that a ring of these ranks of one island gets; 0: none.
  double peer_share(std::span<const int> ranks) const;
  // The share that one step of that ring gets.
  double step_share(int from, int to, double ring) const {
    return seating_.domain_of(from) == seating_.domain_of(to) ? ring : 0;
  }
  Way way(int from, int to) const;

 private:
  GroupSeats seats_of(std::vector<int> ranks) const;
  void find_places();

  const Mesh mesh_;
  const Cluster& cluster_;
  const Seating seating_;
  std::vector<ClassPlace> places_;  // by stage
};

}  // namespace zplan
