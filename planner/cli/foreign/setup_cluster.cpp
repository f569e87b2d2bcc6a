#include "planner/cli/foreign/setup_cluster.h"

#include <algorithm>
#include <utility>

#include "hwprofiles/memory_quantity.h"

namespace zplan {
namespace {

// A finding tells of dropout that kernels here have none of.
bool drops(const Setup& setup) {
  return setup.plan.dropout ||
         std::ranges::find(setup.findings, "/dropout", &Finding::key) != setup.findings.end();
}

}  // namespace

SetupCluster cluster_of_setup(const Setup& setup, Cluster cluster) {
  StackUse use = find_stack_use(setup.stack, "");
  cluster.stack = rates_of(use.evidence.stack, cluster);
  cluster.memory = use.evidence.stack.memory;
  cluster.memory[MemoryQuantity::kBuckets] = {
      .from = {{0, static_cast<double>(setup.buckets.value)}},
      .uncertainty = 0,
      .source = "given",
      .ref = "the configuration"};
  cluster.memory[MemoryQuantity::kUnitBuckets] = {};
  cluster.memory[MemoryQuantity::kWholeUnitBuckets] = {};
  if (!drops(setup)) cluster.memory[MemoryQuantity::kResidual] = {};
  return {std::move(cluster), std::move(use)};
}

}  // namespace zplan
