#include "planner/cli/foreign/setup_cluster.h"

#include <utility>

#include "hwprofiles/memory_quantity.h"
namespace zplan {

SetupCluster cluster_of_setup(const Setup& setup, Cluster cluster) {
  StackUse use = find_stack_use(setup.stack, "");
  cluster.stack = rates_of(use.evidence.stack, cluster);
  cluster.memory = use.evidence.stack.memory;
  cluster.memory[MemoryQuantity::kBuckets] = {
      .from = {{0, static_cast<double>(setup.buckets.value)}},
      .uncertainty = 0,
      .source = "given",
      .ref = "the configuration"};
  return {std::move(cluster), std::move(use)};
}

}  // namespace zplan
