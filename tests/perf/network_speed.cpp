// What it takes to find which links the collectives of 16,384 GPUs load: rings over data parallel
// ranks, and exchanges between 64 of them, on the networks that a cluster file can describe. Prints
// a line of JSON for each; asserts nothing.
//
//   perf_network_speed [RUNS]
//
// Goal: a graph of three levels costs at most twice what leaves and a spine do; an ideal network,
// on which only the wires of nodes are loaded, is the least. Best of RUNS (default 5).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "planner/cost/mesh_wires.h"
#include "tests/support/meshes.h"

namespace zplan {
namespace {

constexpr double kGoal = 2;
constexpr int kNodes = 2048, kTensor = 8, kExchange = 64;

double seconds_of(const Cluster& cluster, int runs) {
  using namespace testing_support;
  const Mesh mesh = mesh_of({.dp = kNodes, .tp = kTensor, .shards = kExchange});
  double best = std::numeric_limits<double>::max();
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    MeshWires wires(mesh, cluster, std::make_shared<NodeWires>(cluster));
    wires.shares({PatternKind::kRing, 0, 0, 0, groups::kData});
    wires.shares({PatternKind::kRing, 0, 0, 0, groups::kShard});
    wires.shares({PatternKind::kPairs, 0, 0, 0, groups::kShard});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

void run(int runs) {
  Cluster ideal = load_cluster(fmt::format("dgx-h100x{}", kNodes));
  const double least = seconds_of(ideal, runs);
  Cluster leaves = ideal;
  leaves.network.nodes_per_leaf = 32;
  leaves.network.rails = true;
  const double two_levels = seconds_of(leaves, runs);
  const auto print = [&](std::string_view network, double seconds) {
    fmt::print(R"({{"network": "{}", "gpus": {}, "seconds": {:.4f}, "of_leaves": {:.2f}, )"
               R"("goal": {}}})"
               "\n",
               network, kNodes * kTensor, seconds, seconds / two_levels, kGoal);
  };
  print("ideal", least);
  print("leaves and spine, rails", two_levels);
  leaves.network.scattered = true;
  print("the same, scattered", seconds_of(leaves, runs));
  Cluster levels = load_cluster("meta-h100-24k");
  levels.nodes = kNodes;
  print("three levels", seconds_of(levels, runs));
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) {
  zplan::run(argc > 1 ? std::atoi(argv[1]) : 5);
  return 0;
}
