// The network between the nodes of a cluster.
//
//   full bisection  one ideal switch: each network port always has its whole rate
//   leaf and spine  `nodes_per_leaf` nodes hang on a leaf switch. What leaves the leaf shares its
//                   uplinks, up and down each at
//                     nodes_per_leaf x what a node can send / oversubscription
//                   With rails each port of a node has a leaf switch of its own, which it shares
//                   with the same port of the leaf's other nodes: traffic between equal ports stays
//                   below the spine, other traffic crosses it, in one node as well.
//   in order        the nodes of a job follow each other: the ranks of a leaf are neighbours
//   scattered       they are dealt out over the leaves one by one, as a scheduler does that does
//                   not see leaves: neighbours are in different ones
//
// Left out: more than two levels of switches; flows that meet on one uplink while another is idle;
// leaves that are partly taken by other jobs.
#pragma once

namespace zplan {

struct NetworkSpec {
  int nodes_per_leaf = 0;  // 0: full bisection
  double oversubscription = 1;
  bool rails = false;
  bool scattered = false;

  bool has_leaves() const { return nodes_per_leaf > 0; }
  int leaves(int nodes) const { return (nodes + nodes_per_leaf - 1) / nodes_per_leaf; }
  int leaf_of(int node, int nodes) const {
    return scattered ? node % leaves(nodes) : node / nodes_per_leaf;
  }
};

}  // namespace zplan
