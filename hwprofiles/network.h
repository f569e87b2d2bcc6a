// The network between the nodes of a cluster, as files describe it; fabric.h makes a graph of it.
//
//   full bisection  one ideal switch: each network port always has its whole rate
//   leaf and spine  `nodes_per_leaf` nodes hang on a leaf switch. What leaves the leaf shares its
//                   uplinks, up and down each at
//                     nodes_per_leaf x what a node can send / oversubscription
//                   With rails each port of a node has a leaf switch of its own, which it shares
//                   with the same port of the leaf's other nodes: traffic between equal ports stays
//                   below the spine, other traffic crosses it, in one node as well.
//     in order      the nodes of a job follow each other: the ranks of a leaf are neighbours
//     scattered     they are dealt out over the leaves one by one, as a scheduler does that does
//                   not see leaves: neighbours are in different ones
//   graph           sets of switches, and rules of the links between them and to the nodes' ports
//                   (NetworkRules): any number of levels, groups and tori
//
// Left out: flows that meet on one link while another way of the same length is idle; switches that
// are partly taken by other jobs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hwprofiles/index_rule.h"
#include "hwprofiles/wire_graph.h"

namespace zplan {

// Switches with indices, from 0 to each size of the shape; without one a single switch.
struct SwitchSet {
  std::string name;
  std::vector<int> shape;
};

// A switch or a port is called so: "leaf[3,0]", "spine", "node[12].port[3]".
std::string switch_name(const SwitchSet& set, std::span<const std::int64_t> indices);
std::string port_name(std::int64_t node, std::int64_t port);

// An end of a link is a switch or the port of a node.
struct LinkEnd {
  int set = -1;  // of the switches; -1: node[..].port[..]
  std::vector<IndexRule> indices;
};

// Links by their ends: one for each value of the names that the ends' indices hold. A name that is
// an index by itself goes through what is there.
struct LinkPlaces {
  LinkEnd from, to;
  std::optional<IndexRule> where;  // only where it is not 0
  std::vector<std::string> names;
};

// All links of a kind. A port's link carries no more than the port, whatever the rate of its cable.
struct LinkRule : LinkPlaces {
  std::optional<LinkClass> rate;  // of one cable, each way; none: that of the port
  int cables = 1;                 // a port has one
};

// Links that carry less than their kind does, or nothing.
struct WeakLink : LinkPlaces {
  double share = 0;  // of the rate
};

// A flow takes all of several shortest ways: as much over each cable (ecmp), or in proportion to
// their rates (adaptive).
enum class Spreading : std::uint8_t { kByCables, kByRates };

struct NetworkRules {
  std::vector<SwitchSet> switches;
  std::vector<LinkRule> links;
  std::vector<WeakLink> weak;
  Spreading spreading = Spreading::kByCables;
};

struct NetworkSpec {
  int nodes_per_leaf = 0;  // 0: no leaves
  double oversubscription = 1;
  bool rails = false;
  bool scattered = false;
  std::shared_ptr<const NetworkRules> rules{};  // of a graph; else null

  bool has_leaves() const { return nodes_per_leaf > 0; }
  bool is_ideal() const { return !has_leaves() && rules == nullptr; }
  int leaves(int nodes) const { return (nodes + nodes_per_leaf - 1) / nodes_per_leaf; }
  int leaf_of(int node, int nodes) const {
    return scattered ? node % leaves(nodes) : node / nodes_per_leaf;
  }
};

}  // namespace zplan
