#include "planner/search/time_floor.h"

#include <gtest/gtest.h>

#include <vector>

#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/kernels/kernel_set.h"
#include "sim/simulate.h"
#include "tests/support/kernels_alone.h"

namespace zplan {
namespace {

struct Times {
  double floor, period;
};

Times times_of(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  EXPECT_EQ(illegal(plan, shape_of(model)), std::nullopt);
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  return {time_floor(plan, model, cluster).value, sim::simulate(job, cluster).period.value};
}

Plan plan_for(const Cluster& cluster) {
  Plan plan;
  plan.kernel_set = cluster.node.device.kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = find_kernel_set(plan.kernel_set).loss_scaling;
  plan.clip = false;  // which makes stages wait for each other, delayed or not
  return plan;
}

// Of a pipeline on a cluster where kernels alone take time, so that nothing hides a floor that is
// too great.
Times times_of(std::int32_t stages, std::int64_t micro_steps, bool delayed,
               Schedule schedule = Schedule::kOneForwardOneBackward) {
  const bool flushes = schedule == Schedule::kOneForwardOneBackward;
  ModelConfig model = load_model("tiny");
  model.tied_embeddings = flushes;  // whose gradients make the last stage wait for the first
  model.layers = 4;
  model.hidden = model.heads * 256;
  model.ffn = 4 * model.hidden;
  model.sequence = 64;
  Cluster cluster = kernels_alone(load_cluster(flushes ? "dgx2" : "dgx-a100"));  // fp16, bf16
  cluster.node.topology.nvme_read = cluster.node.topology.nvme_write = {{1e16}, 1.0};
  Plan plan = plan_for(cluster);
  plan.parallel.pp = stages;
  plan.placement.optimizer = Tier::kCpu;
  plan.batch = {micro_steps, 1, model.sequence};
  plan.delayed_update = delayed;
  plan.schedule = schedule;
  return times_of(plan, model, cluster);
}

TEST(TimeFloor, StaysBelowThePeriodOfAPipeline) {
  for (const bool delayed : {false, true})
    for (const std::int32_t stages : {1, 2, 4})
      for (const std::int64_t micro_steps : {1, 2, 4}) {
        const Times times = times_of(stages, micro_steps, delayed);
        EXPECT_LE(times.floor, times.period)
            << stages << " stages, " << micro_steps << " micro-steps, delayed " << delayed;
        EXPECT_GE(times.floor, 0.8 * times.period)
            << stages << " stages, " << micro_steps << " micro-steps, delayed " << delayed;
      }
}

// Layers with and without a window in turn, and ends that take next to nothing: what the floor
// leaves out covers nothing.
ModelConfig deep_model() {
  ModelConfig model = load_model("tiny");
  model.layers = 400;
  model.hidden = model.heads * 256;
  model.ffn = 4 * model.hidden;
  model.sequence = 2048;
  model.vocab = 16;
  model.layer.window = 64;
  model.layer.window_layers = model.layer.full_layers = 1;
  return model;
}

// Of a pipeline of tensor parallel ranks that meet at this rate.
Times times_together(const Parallel& shape, Recompute mode, double rate) {
  const ModelConfig model = deep_model();
  Cluster cluster = kernels_alone(load_cluster("dgx2"));
  cluster.node.topology.gpu_peer = LinkClass{{rate}, 1.0};
  cluster.node.device.collectives = nullptr;  // the link alone says how long they take
  Plan plan = plan_for(cluster);
  plan.parallel = shape;
  plan.recompute = {{mode}};
  plan.batch = {8, 1, model.sequence};
  return times_of(plan, model, cluster);
}

TEST(TimeFloor, CountsWhatKernelsWaitForTheRanksBesideThem) {
  for (const std::int32_t stages : {1, 2, 4})
    for (const bool sequence_parallel : {false, true})
      for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
        for (double rate = 4e9; rate < 1e13; rate *= 4) {
          const Parallel shape{.tp = 4, .pp = stages, .sequence_parallel = sequence_parallel};
          const Times times = times_together(shape, mode, rate);
          EXPECT_LE(times.floor, times.period) << stages << " stages, " << rate;
          // Where links are slow the ends of stages, which do not count, take as long as layers.
          EXPECT_GE(times.floor, (rate < 1e11 ? 0.7 : 0.9) * times.period)
              << stages << " stages, " << rate;
        }
}

// Kernels that write gradients in fp32 take longer than those that leave the cast to the reduction,
// and floors of both are asked of one object.
TEST(TimeFloor, OfARecipeIsItsOwnWhateverWasAskedBefore) {
  const ModelConfig model = deep_model();
  const Cluster cluster = kernels_alone(load_cluster("dgx-a100"));
  TimeFloors floors(model, cluster);
  std::vector<double> found;
  for (const char* recipe : {"fp32-gradients", "fp32-reduction", "standard"}) {
    Plan plan = plan_for(cluster);
    plan.precision = *find_recipe(recipe, plan.kernel_set);
    plan.zero_stage = 2;
    plan.batch = {8, 1, model.sequence};
    found.push_back(floors.of(plan, in_flight_of_stages(plan)).value);
    EXPECT_EQ(found.back(), time_floor(plan, model, cluster).value) << recipe;
  }
  EXPECT_LT(found[1], found[0]);
}

// Where no stage waits for another to begin or to end a step.
TEST(TimeFloor, StaysBelowThePeriodOfAPipelineWithoutFlush) {
  for (const std::int32_t stages : {2, 4})
    for (const std::int64_t micro_steps : {4, 7, 16}) {
      const Times times = times_of(stages, micro_steps, false, Schedule::kDoubleBuffered);
      EXPECT_LE(times.floor, times.period) << stages << " stages, " << micro_steps;
      EXPECT_GE(times.floor, 0.8 * times.period) << stages << " stages, " << micro_steps;
      // Many updates, none of which it counts.
      const Times stashing = times_of(stages, micro_steps, false, Schedule::kWeightStashing);
      EXPECT_LE(stashing.floor, stashing.period) << stages << " stages, " << micro_steps;
    }
}

}  // namespace
}  // namespace zplan
