// Parameter shards: groups of neighbours share the parameters, larger ones gradients and optimizer
// states; what ranks with the same shard of parameters update is gathered once per step. M
// elements of parameters, x neighbours, n ranks that share the states, m micro-steps:
//   memory   M / x elements of parameters on each rank, M / n of gradients and of each state
//   volume   a rank sends 2 m M (x - 1) / x in gathers of forward and backward, m M (n - 1) / n in
//            reductions, and M / x - M / n once per step
#include <gtest/gtest.h>

#include <map>

#include "models/model_formulas.h"
#include "planner/lower/ranks.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

constexpr DType kType = DType::kBf16;
constexpr int kDp = 8, kStates = 4, kParameters = 2, kMicroSteps = 3;

Plan plan_of(int parameter_shards) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.parallel.shards = kStates;
  plan.zero_stage = 3;
  plan.gather = Gather::kLayer;
  plan.parameter_shards = parameter_shards;
  plan.batch = {.global_batch = kDp * kMicroSteps, .micro_batch = 1, .sequence = 128};
  return plan;
}

ModelConfig untied_model() {
  ModelConfig model = testing_support::round_model();
  model.tied_embeddings = false;
  return model;
}

AxisSet axes(const Mesh& mesh, std::initializer_list<const char*> names) {
  AxisSet set;
  for (const char* name : names) set.add(*mesh.find(name));
  return set;
}

// The part of the index that varies fastest is that of the ranks whose shards of parameters are the
// same, however far apart these are.
TEST(ParameterShards, AreGroupsOfNeighboursWithinThoseOfStates) {
  Plan plan = plan_of(kParameters);
  EXPECT_EQ(sizes_text(mesh_of(plan)), "tp 1 x dp.1 2 x dp.0 2 x dp.2 2 x pp 1");
  EXPECT_EQ(shard_axes(mesh_of(plan)), axes(mesh_of(plan), {"dp.0", "dp.1"}));
  plan.parallel = {.dp = 16, .tp = 2, .pp = 3};
  plan.parameter_shards = 8;
  plan.secondary = 2;
  for (const RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst}) {
    plan.order = order;
    const Mesh mesh = mesh_of(plan);
    EXPECT_FALSE(mesh_fault(mesh));
    EXPECT_EQ(sizes_text(mesh), "tp 2 x dp.2 2 x dp.0 2 x dp.1 4 x dp.3 1 x pp 3");
    const AxisSet states = axes(mesh, {"dp.0", "dp.1", "dp.2"});
    EXPECT_EQ(shard_axes(mesh), states);
    EXPECT_EQ(neighbours(mesh, states, 16), states);
    EXPECT_EQ(neighbours(mesh, states, 8), axes(mesh, {"dp.0", "dp.1"}));
    EXPECT_EQ(neighbours(mesh, states, 2), axes(mesh, {"dp.0"}));
    const std::int32_t next = order == RankOrder::kDataFirst ? 2 : 6;
    EXPECT_EQ(mesh.axes[*mesh.find("dp.0")].stride, next);
    EXPECT_EQ(mesh.axes[*mesh.find("dp.1")].stride, 2 * next);
    EXPECT_EQ(mesh.axes[*mesh.find("dp.2")].stride, 8 * next);
  }
}

// Each rank's piece of the states begins within its shard of the parameters, wherever it is.
TEST(ParameterShards, HoldWhatTheirRanksUpdate) {
  const Job job = lower(plan_of(kParameters), untied_model());
  for (const UnitHome& home : job.classes[0].homes) {
    const Unit& unit = job.units[home.unit];
    for (std::int32_t rank = 0; rank < job.world(); ++rank) {
      const MeshPoint at = job.mesh.point(rank);
      const std::int64_t shard = job.piece_elements(unit, home.param.shards);
      const std::int64_t from = job.mesh.index_in(home.param.shards, at) * shard;
      const std::int64_t own = job.mesh.index_in(unit.shards, at) * unit.shard_elements;
      EXPECT_GE(own, from);
      EXPECT_LE(own + unit.shard_elements, from + shard);
    }
  }
}

TEST(ParameterShards, TakeTheirGroupsPartOfParametersAndLeaveTheStates) {
  const Job job = lower(plan_of(kParameters), untied_model());
  const RankClass& c = job.classes[0];
  std::map<Category, double> elements;
  for (const Buffer& buffer : c.program.buffers)
    if (buffer.persistent && buffer.unpadded.value > 0)
      elements[buffer.category] += static_cast<double>(buffer.unpadded.value) /
                                   static_cast<double>(size_of(buffer.dtype).value * buffer.shards);
  const auto all = static_cast<double>(parameter_count(untied_model()));
  EXPECT_DOUBLE_EQ(elements[Category::kParameters], all / kParameters);
  EXPECT_DOUBLE_EQ(elements[Category::kGradients], all / kStates);
  EXPECT_DOUBLE_EQ(elements[Category::kOptimizer], 3 * all / kStates);
  for (const UnitHome& home : c.homes) {
    EXPECT_EQ(home.param.shards, axes(job.mesh, {"dp.0"}));
    for (const StateHome& state : {home.master, home.moments[0], home.moments[1]})
      EXPECT_EQ(state.shards, axes(job.mesh, {"dp.0", "dp.1"}));
  }
}

TEST(ParameterShards, LeaveTheirGroupsOncePerStep) {
  const Plan plan = plan_of(kParameters);
  const auto layer = static_cast<double>(layer_parameter_count(untied_model()));
  const auto expect_moved = [&](std::initializer_list<const char*> names, double gathered,
                                double reduced) {
    const Group group{axes(mesh_of(plan), names)};
    const auto sum = [&](double testing_support::Moved::*kind) {
      return testing_support::per_layer(plan, untied_model(), [&](const Job& job) {
        return testing_support::moved(job, job.classes[0], group, kType).*kind;
      });
    };
    EXPECT_DOUBLE_EQ(sum(&testing_support::Moved::gathered), gathered * layer);
    EXPECT_DOUBLE_EQ(sum(&testing_support::Moved::reduce_scattered), reduced * layer);
  };
  const double near = (kParameters - 1.0) / kParameters, all = (kStates - 1.0) / kStates;
  expect_moved({"dp.0"}, 2 * kMicroSteps * near, 0);
  expect_moved({"dp.0", "dp.1"}, 0, kMicroSteps * all);
  expect_moved({"dp.1"}, 1.0 / kParameters - 1.0 / kStates, 0);
}

}  // namespace
}  // namespace zplan
