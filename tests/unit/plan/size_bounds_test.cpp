// The bounds hold for the Jobs that plans have.
#include "planner/plan/size_bounds.h"

#include <gtest/gtest.h>

#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/plan/limits.h"
#include "planner/program/kernels/kernel_table.h"
#include "tests/support/plan_cover.h"

namespace zplan {
namespace {

void expect_bounded(const Plan& plan, const ModelConfig& model) {
  const std::string shown = model.name + " " + to_json(plan);
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  double flops = 0, bytes = 0, traffic = 0;
  for (const RankClass& c : job.classes) {
    for (const Bytes slab : c.placement.slab)
      bytes += static_cast<double>(slab.value) * job.replicas();
    for (const Node& node : c.program.nodes) {
      if (node.kind != OpKind::kKernel) continue;
      const Demand demand = demand_of(c.program, node);
      flops = std::max(flops, static_cast<double>(demand.flops.value));
      traffic = std::max(traffic, static_cast<double>(demand.bytes.value));
    }
  }
  const ModelShape shape = shape_of(model);
  EXPECT_LE(flops, flops_bound(plan, shape)) << shown;
  EXPECT_LE(bytes, total_bytes_bound(plan, shape)) << shown;
  EXPECT_LE(traffic, 2 * total_bytes_bound(plan, shape)) << shown;
}

TEST(SizeBounds, HoldForThePlansOfTheTinyModels) {
  for (const auto& choice : testing_support::pairwise_choices()) {
    const Plan plan = testing_support::plan_of(choice, "cpu.f64");
    expect_bounded(plan, load_model(plan.model));
  }
}

TEST(SizeBounds, HoldForEveryModel) {
  for (const ModelConfig& model : model_catalogue()) {
    for (const std::int32_t stage : {0, 3})
      for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
        Plan plan;
        plan.kernel_set = "cpu.f64";
        plan.precision = default_recipe(plan.kernel_set);
        plan.precision.separate_master = true;
        plan.zero_stage = stage;
        plan.recompute = {{recompute, 0}};
        plan.parallel.dp = 4;
        plan.parallel.pp = model.encoder_layers > 0 ? 1 : 2;
        plan.batch = {.global_batch = 16, .micro_batch = 2, .sequence = model.sequence};
        ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt) << model.name;
        expect_bounded(plan, model);
      }
  }
}

// The host holds the gradients of a step and the new parameters besides all other states. Of so
// many layers these outweigh what the bound has in reserve.
TEST(SizeBounds, HoldForADelayedUpdate) {
  ModelConfig model = load_model("llama3-8b");
  model.layers = 400;
  model.kv_heads = model.heads;
  model.vocab = 1000;
  for (const std::int32_t stage : {0, 3}) {
    Plan plan;
    plan.kernel_set = "cpu.f64";
    plan.precision = default_recipe(plan.kernel_set);
    plan.precision.separate_master = true;
    plan.zero_stage = stage;
    plan.recompute = {{Recompute::kFull, 0}};
    plan.placement.optimizer = Tier::kCpu;
    plan.delayed_update = true;
    plan.parallel.dp = 2;
    plan.batch = {.global_batch = 2, .micro_batch = 1, .sequence = 8};
    ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
    expect_bounded(plan, model);
  }
}

TEST(SizeBounds, HoldForVersionsOfTheParameters) {
  ModelConfig model = load_model("llama3-8b");
  model.layers = 400;
  model.kv_heads = model.heads;
  model.vocab = 1000;
  Plan plan;
  plan.kernel_set = "cpu.f64";
  plan.precision = default_recipe(plan.kernel_set);
  plan.precision.separate_master = true;
  plan.recompute = {{Recompute::kFull, 0}};
  plan.parallel.pp = 4;
  plan.clip = false;
  plan.batch = {.global_batch = 7, .micro_batch = 1, .sequence = 8};
  for (const Schedule schedule : {Schedule::kDoubleBuffered, Schedule::kWeightStashing}) {
    plan.schedule = schedule;
    ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
    expect_bounded(plan, model);
  }
  plan.parallel = {.chunks = 4};  // on one rank gradients wait
  ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
  expect_bounded(plan, model);
}

// Every rank of a context has what it would have of whole sequences, at most.
TEST(SizeBounds, HoldForContextParallelRanks) {
  ModelConfig model = load_model("llama3-8b");
  model.layers = 8;
  model.vocab = 1000;
  for (const char* set : {"cpu.f64", "cpu.f64.unfused"}) {
    Plan plan;
    plan.kernel_set = set;
    plan.precision = default_recipe(plan.kernel_set);
    plan.parallel.cp = 8;
    plan.batch = {.global_batch = 2, .micro_batch = 2, .sequence = 4096};
    ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
    expect_bounded(plan, model);
  }
}

// What small groups share outweighs all states that are cut over many ranks.
TEST(SizeBounds, HoldForGroupsWithinThoseThatShareStates) {
  ModelConfig model = load_model("llama3-8b");
  model.layers = 400;
  model.vocab = 1000;
  Plan plan;
  plan.kernel_set = "cpu.f64";
  plan.precision = default_recipe(plan.kernel_set);
  plan.zero_stage = 3;
  plan.recompute = {{Recompute::kFull, 0}};
  plan.parallel.dp = 256;
  plan.secondary = 2;
  plan.batch = {.global_batch = 256, .micro_batch = 1, .sequence = 8};
  ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
  expect_bounded(plan, model);
  std::swap(plan.secondary, plan.parameter_shards);
  ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
  expect_bounded(plan, model);
}

}  // namespace
}  // namespace zplan
