// Parameters and gradients in two homes, from lowered Jobs: 2 bytes per parameter each, cut by the
// share to the byte, and transfers of the far layers alone, pass by pass.
#include <gtest/gtest.h>

#include "models/model_formulas.h"
#include "planner/place/place.h"
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
constexpr int kMicroSteps = 3;

ModelConfig even_model() {
  ModelConfig model = round_model();  // of which no vector is padded on a drive either
  model.hidden = 8192;
  model.ffn = 4 * model.hidden;
  return model;
}

Plan plan_of(Tier far) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = *find_recipe("standard", plan.kernel_set);
  plan.parallel.dp = kDp;
  plan.zero_stage = 3;
  plan.recompute = recompute_all(Recompute::kNone);
  plan.batch = {.global_batch = kDp * kMicroSteps, .micro_batch = 1, .sequence = 128};
  plan.placement = {far, far, far};
  return plan;
}

Tier nearer(Tier far) { return far == Tier::kCpu ? Tier::kGpu : Tier::kCpu; }

// [Rajbhandari20 sec 3.1]: 2 bytes of parameters and 2 of gradients for each parameter.
TEST(NearStates, CutTheBytesByTheShareToTheByte) {
  const ModelConfig model = even_model();
  const Ends ends = ends_of(model);
  const std::int64_t layer = layer_parameter_count(model);
  for (int near = 1; near < model.layers; ++near)
    for (const Tier far : {Tier::kCpu, Tier::kNvme})
      for (const Category category : {Category::kParameters, Category::kGradients}) {
        const double share = static_cast<double>(near) / static_cast<double>(model.layers);
        Plan plan = plan_of(far);
        (category == Category::kParameters ? plan.placement.params_near
                                           : plan.placement.grads_near) = share;
        const Job job = lower(plan, model);
        EXPECT_EQ(bytes_of(job, category, nearer(far)) * kDp, 2 * (near * layer + ends.before));
        EXPECT_EQ(bytes_of(job, category, far) * kDp,
                  2 * ((model.layers - near) * layer + ends.after));
      }
}

// Each micro-batch takes its parameters in forward and in backward [Rajbhandari21 sec 4.1], and the
// update gives them back once. Between two shares what is outside the layers cancels.
TEST(NearStates, LeaveTheLinksToTheParametersOfTheOthers) {
  const ModelConfig model = round_model();
  const auto layer = static_cast<double>(layer_parameter_count(model)) / kDp;
  const auto moved = [&](int near, Tier far, Tier from, Tier to) {
    Plan plan = plan_of(far);
    plan.placement.params_near = static_cast<double>(near) / static_cast<double>(model.layers);
    plan.placement.grads = Tier::kGpu;
    return copied(lower(plan, model).classes[0], from, to, DType::kBf16);
  };
  for (int near = 1; near + 1 < model.layers; ++near) {
    const auto saved = [&](Tier far, Tier from, Tier to) {
      return moved(near, far, from, to) - moved(near + 1, far, from, to);
    };
    EXPECT_EQ(saved(Tier::kCpu, Tier::kCpu, Tier::kGpu), (2 * kMicroSteps - 1) * layer);
    EXPECT_EQ(saved(Tier::kNvme, Tier::kNvme, Tier::kCpu), 2 * kMicroSteps * layer);
    EXPECT_EQ(saved(Tier::kNvme, Tier::kCpu, Tier::kNvme), layer);
    EXPECT_EQ(saved(Tier::kNvme, Tier::kCpu, Tier::kGpu), 0);
  }
}

// Of gradients each micro-batch takes its sum and gives it back, but for the first, whose sum is
// zero: that, too, is written.
TEST(NearStates, LeaveTheDrivesToTheGradientsOfTheOthers) {
  const ModelConfig model = round_model();
  const auto layer = static_cast<double>(layer_parameter_count(model)) / kDp;
  const auto moved = [&](int near, Tier from, Tier to) {
    Plan plan = plan_of(Tier::kNvme);
    plan.placement.grads_near = static_cast<double>(near) / static_cast<double>(model.layers);
    plan.placement.params = Tier::kGpu;
    plan.clip = false;
    return copied(lower(plan, model).classes[0], from, to, DType::kBf16);
  };
  for (int near = 1; near + 1 < model.layers; ++near) {
    const auto saved = [&](Tier from, Tier to) {
      return moved(near, from, to) - moved(near + 1, from, to);
    };
    EXPECT_EQ(saved(Tier::kCpu, Tier::kNvme), (kMicroSteps + 1) * layer);
    EXPECT_EQ(saved(Tier::kNvme, Tier::kCpu), (kMicroSteps + 1) * layer);  // and for the update
  }
}

}  // namespace
}  // namespace zplan
