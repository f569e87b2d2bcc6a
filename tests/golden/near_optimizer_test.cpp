// Optimizer states in two homes, from lowered Jobs: 16 bytes per parameter, cut by the share to the
// byte; and the step on a server whose host memory is too small for all of them.
#include <gtest/gtest.h>

#include "hwprofiles/hw_profile.h"
#include "models/model_formulas.h"
#include "planner/place/place.h"
#include "sim/simulate.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::bytes_of;
using testing_support::copied;
using testing_support::Ends;
using testing_support::ends_of;
using testing_support::recompute_all;
using testing_support::round_model;

constexpr int kDp = 4;

Plan plan_of(const char* recipe) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = *find_recipe(recipe, plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.zero_stage = 3;
  plan.recompute = recompute_all(Recompute::kFull);
  plan.batch = {.global_batch = kDp, .micro_batch = 1, .sequence = 128};
  return plan;
}

// [Rajbhandari21 sec 3]: 20 bytes of states per parameter, of which the optimizer's are 16; 12 of
// 16 without copies of the gradients [Rajbhandari20 sec 3.1].
TEST(NearOptimizer, CutsTheBytesOfTheOptimizerByTheShareToTheByte) {
  ModelConfig model = round_model();  // of which no vector is padded on a drive either
  model.hidden = 4096;
  model.ffn = 4 * model.hidden;
  const Ends ends = ends_of(model);
  const std::int64_t layer = layer_parameter_count(model);
  const std::pair<const char*, int> recipes[] = {{"standard", 12}, {"main-gradients", 16}};
  for (const auto& [recipe, bytes] : recipes)
    for (int near = 1; near <= model.layers; ++near)
      for (const Tier far : {Tier::kCpu, Tier::kNvme}) {
        Plan plan = plan_of(recipe);
        plan.placement.optimizer = far;
        plan.placement.optimizer_near =
            static_cast<double>(near) / static_cast<double>(model.layers);
        if (illegal(plan, model.layers)) continue;
        const Job job = lower(plan, model);
        const Tier nearer = far == Tier::kCpu ? Tier::kGpu : Tier::kCpu;
        EXPECT_EQ(bytes_of(job, Category::kOptimizer, nearer) * kDp,
                  bytes * (near * layer + ends.before));
        EXPECT_EQ(bytes_of(job, Category::kOptimizer, far) * kDp,
                  bytes * ((model.layers - near) * layer + ends.after));
      }
}

// Only the states of the far layers move over the drives: read and written once.
TEST(NearOptimizer, LeavesTheDrivesToTheOthers) {
  const ModelConfig model = round_model();
  Plan plan = plan_of("standard");
  plan.placement.optimizer = Tier::kNvme;
  plan.placement.optimizer_near = 0.75;
  const Job job = lower(plan, model);
  const auto far = static_cast<double>(layer_parameter_count(model) + ends_of(model).after) / kDp;
  EXPECT_EQ(copied(job.classes[0], Tier::kNvme, Tier::kCpu, DType::kF32), 3 * far);
  EXPECT_EQ(copied(job.classes[0], Tier::kCpu, Tier::kNvme, DType::kF32), 3 * far);
}

// 50 billion parameters on four GPUs of 24 GB and 768 GiB of host memory, which lacks 75 GiB for
// all states beside what else is there [Liao24].
class ShortHost : public testing::Test {
 protected:
  struct Outcome {
    Bytes host{0}, gpu{0};  // of the node
    double step = 0;
  };
  static Outcome outcome(Tier optimizer, double near) {
    Plan plan = plan_of("standard");
    plan.kernel_set = "cuda.sm89.bf16";
    plan.batch = {.global_batch = 64, .micro_batch = 16, .sequence = 1024};
    plan.placement = {Tier::kCpu, Tier::kCpu, optimizer, Tier::kCpu, near};
    Job job = lower(plan, load_model("zero-infinity-50b"));
    place(job, {.slack = plan.slack});
    const auto& slab = job.classes[0].placement.slab;
    return {slab[static_cast<std::size_t>(Tier::kCpu)] * kDp,
            slab[static_cast<std::size_t>(Tier::kGpu)] * kDp,
            sim::simulate(job, load_cluster("rtx4090-12ssd")).period.value};
  }
  static constexpr int kLayers = 62;
};

TEST_F(ShortHost, TakesAStepBetweenThoseOfAllOnTheCpuAndAllOnDrives) {
  const Outcome cpu = outcome(Tier::kCpu, 0), nvme = outcome(Tier::kNvme, 0);
  const Bytes room = cpu.host - Bytes{std::int64_t{75} << 30};
  EXPECT_LT(nvme.host, room);
  Outcome split = nvme;
  int layers = 0;
  for (double last = nvme.step; layers < kLayers; ++layers, last = split.step) {
    const Outcome more = outcome(Tier::kNvme, (layers + 1.0) / kLayers);
    if (more.host > room) break;
    split = more;
    EXPECT_LT(split.step, last) << layers + 1;
  }
  // 9.1 GiB per layer: 75 GiB, and what the states of the others go through, are 10 of them.
  EXPECT_EQ(layers, kLayers - 10);
  EXPECT_LT(cpu.step, split.step);
  EXPECT_LT(split.step, nvme.step);
  // The drives' part of the step falls with what they move.
  const double share = 1 - (split.step - cpu.step) / (nvme.step - cpu.step);
  EXPECT_NEAR(share, static_cast<double>(layers) / kLayers, 0.05);
}

TEST_F(ShortHost, IsHelpedByTheRoomOnTheGpusToo) {
  const Outcome cpu = outcome(Tier::kCpu, 0), twin = outcome(Tier::kCpu, 5.0 / kLayers);
  EXPECT_GT(twin.gpu, cpu.gpu);
  EXPECT_LT(twin.host, cpu.host);
  EXPECT_LT(twin.step, cpu.step);
}

}  // namespace
}  // namespace zplan
