// Secondary shards of ZeRO++ (hpZ) [Wang23 sec 3.2], counted in lowered Jobs. M parameters, x ranks
// in a secondary group, m micro-steps:
//   memory   M / x elements of the compute type more on each rank, on top of what ZeRO 3 has
//   volume   per micro-step ZeRO 3 moves 3 M over the network: two all-gathers and a
//            reduce-scatter; with groups of a node 2 M, since what backward gathers never leaves
//            it.
// A replay by layers leaves the layer gathered for backward, so recomputation changes neither.
// Counts are exact: sizes are chosen such that nothing is padded. What is outside the layers is not
// read in backward, or is still there from forward, and cancels.
#include <gtest/gtest.h>

#include <set>

#include "models/model_formulas.h"
#include "planner/program/job/meetings.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::moved;
using testing_support::per_layer;
using testing_support::recompute_all;
using testing_support::round_model;

constexpr DType kType = DType::kBf16;
constexpr int kDp = 4, kOfNode = 2, kMicroSteps = 3;

Plan plan_of(int secondary) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.zero_stage = 3;
  plan.gather = Gather::kLayer;
  plan.secondary = secondary;
  plan.batch = {.global_batch = kDp * kMicroSteps, .micro_batch = 1, .sequence = 128};
  return plan;
}

ModelConfig untied_model() {
  ModelConfig model = round_model();
  model.tied_embeddings = false;
  return model;
}

double elements_of_parameters(const Job& job) {
  double elements = 0;
  for (const Buffer& buffer : job.classes[0].program.buffers)
    if (buffer.category == Category::kParameters)
      elements += static_cast<double>(buffer.unpadded.value) /
                  static_cast<double>(size_of(kType).value * buffer.shards);
  return elements;
}

TEST(SecondaryShards, TakeTheParametersOverTheSizeOfTheirGroup) {
  const ModelConfig model = untied_model();
  const auto parameters = static_cast<double>(parameter_count(model));
  EXPECT_DOUBLE_EQ(elements_of_parameters(lower(plan_of(0), model)), parameters / kDp);
  EXPECT_DOUBLE_EQ(elements_of_parameters(lower(plan_of(kOfNode), model)),
                   parameters / kDp + parameters / kOfNode);
}

// Elements of one layer, in units of its parameters, that a rank sends in groups with members of
// other nodes; of m micro-steps.
struct OverNetwork {
  double gathered = 0, reduce_scattered = 0;
};
OverNetwork over_network(const Plan& plan) {
  const auto layer = static_cast<double>(layer_parameter_count(untied_model())) * (kDp - 1) / kDp;
  const auto count = [&](bool gathered) {
    return per_layer(plan, untied_model(), [&](const Job& job) {
      double sum = 0;
      std::set<Group> groups;
      for (const Node& node : job.classes[0].program.nodes)
        if (node.kind == OpKind::kCollective) groups.insert(node.group);
      for (const Group& group : groups) {
        const std::vector<std::int32_t> ranks = members_of(job.mesh, group, 0).ranks;
        if (ranks.back() / kOfNode == ranks.front() / kOfNode) continue;
        const auto moves = moved(job, job.classes[0], group, kType);
        sum += gathered ? moves.gathered : moves.reduce_scattered;
      }
      return sum / layer;
    });
  };
  return {count(true), count(false)};
}

TEST(SecondaryShards, OfANodeKeepWhatBackwardGathersInsideIt) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kFull}) {
    Plan plan = plan_of(0);
    plan.recompute = recompute_all(mode);
    EXPECT_DOUBLE_EQ(over_network(plan).gathered, 2 * kMicroSteps);
    EXPECT_DOUBLE_EQ(over_network(plan).reduce_scattered, kMicroSteps);
    plan.secondary = kOfNode;
    EXPECT_DOUBLE_EQ(over_network(plan).gathered, kMicroSteps);
    EXPECT_DOUBLE_EQ(over_network(plan).reduce_scattered, kMicroSteps);
  }
}

// Inside the group a rank sends the other members' part of what it has of each layer.
TEST(SecondaryShards, MoveALayerInsideTheGroupOncePerMicroStep) {
  const auto inside = [](const Job& job) {
    AxisSet neighbours;
    neighbours.add(*job.mesh.find("dp.0"));
    return moved(job, job.classes[0], {neighbours}, kType).gathered;
  };
  const auto layer = static_cast<double>(layer_parameter_count(untied_model()));
  EXPECT_DOUBLE_EQ(per_layer(plan_of(kOfNode), untied_model(), inside),
                   kMicroSteps * layer * (kOfNode - 1) / kOfNode);
}

}  // namespace
}  // namespace zplan
