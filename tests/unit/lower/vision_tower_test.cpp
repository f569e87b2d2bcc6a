// A vision tower on the stage with the first layers: trained, its projectors alone, or frozen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "models/vision_config.h"
#include "planner/lower/lower.h"
#include "planner/place/memory_report.h"
#include "planner/place/place.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

using testing::HasSubstr;

Plan plan_for(const ModelConfig& model) {
  Plan plan;
  plan.kernel_set = "cpu.f64";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 4, .micro_batch = 1, .sequence = model.sequence};
  return plan;
}

Job lowered(const std::function<void(Plan&)>& change) {
  const ModelConfig model = load_model("tiny-vision");
  Plan plan = plan_for(model);
  change(plan);
  Job job = lower(plan, model);
  place(job);
  EXPECT_EQ(verify(job), std::vector<std::string>{});
  return job;
}

bool has(const Program& program, Phase phase, Part part) {
  return std::ranges::any_of(program.nodes, [&](const Node& node) {
    return node.role.phase == phase && node.role.part == part;
  });
}

TEST(VisionTower, GoesForwardOnlyWhereItIsNotTrained) {
  const auto program = [](VisionTrained what) {
    return lowered([&](Plan& plan) { plan.train.vision = what; }).classes.front().program;
  };
  const Program all = program(VisionTrained::kModel);
  EXPECT_TRUE(has(all, Phase::kBackward, Part::kPatches));
  EXPECT_TRUE(has(all, Phase::kBackward, Part::kProjector));
  const Program projector = program(VisionTrained::kProjector);
  EXPECT_FALSE(has(projector, Phase::kBackward, Part::kPatches));
  EXPECT_TRUE(has(projector, Phase::kBackward, Part::kProjector));
  EXPECT_FALSE(has(projector, Phase::kUpdate, Part::kPatches));
  const Program none = program(VisionTrained::kNone);
  EXPECT_FALSE(has(none, Phase::kBackward, Part::kProjector));
  EXPECT_TRUE(has(none, Phase::kForward, Part::kProjector));
}

// Inputs of its layers pass through a ring, and what they give dies with the layer.
TEST(VisionTower, KeepsNothingForALaterBackwardWhereItIsFrozen) {
  const auto activations = [](VisionTrained what) {
    const Job job = lowered([&](Plan& plan) {
      plan.train.vision = what;
      plan.parallel.pp = 2;
    });
    const MemoryReport report = measure(job);
    return report.classes.front().tiers.front().by_category[static_cast<std::size_t>(
        Category::kActivations)];
  };
  EXPECT_LT(activations(VisionTrained::kNone), activations(VisionTrained::kProjector));
  EXPECT_LT(activations(VisionTrained::kProjector), activations(VisionTrained::kModel));
}

TEST(VisionTower, IsOnTheStageWithTheFirstLayers) {
  const Job job = lowered([](Plan& plan) { plan.parallel.pp = 2; });
  EXPECT_TRUE(has(job.classes[0].program, Phase::kForward, Part::kPatches));
  EXPECT_FALSE(has(job.classes[1].program, Phase::kForward, Part::kPatches));
  EXPECT_THAT(job.classes[0].layers, testing::ElementsAre(LayerRange{0, 2}, LayerRange{4, 4}));
  EXPECT_THAT(job.classes[1].layers, testing::ElementsAre(LayerRange{2, 2}));
}

TEST(VisionTower, SaysWhatItDoesNotGoTogetherWith) {
  const ModelConfig model = load_model("tiny-vision");
  const auto why = [&](const std::function<void(Plan&)>& change) {
    Plan plan = plan_for(model);
    change(plan);
    return illegal(plan, shape_of(model)).value_or("");
  };
  EXPECT_EQ(why([](Plan&) {}), "");
  EXPECT_THAT(why([](Plan& p) { p.parallel.cp = 2; }),
              HasSubstr("a model with a vision tower needs cp 1, not 2"));
  EXPECT_THAT(why([](Plan& p) { p.train.what = Trained::kLayers; }),
              HasSubstr("needs train all or lora, not layers"));
  EXPECT_THAT(why([](Plan& p) { p.batch.sequence = 4; }),
              HasSubstr("sequence 4 is shorter than the 8 tokens of its images"));
  Plan plan = plan_for(model);
  plan.train.vision = VisionTrained::kNone;
  EXPECT_THAT(illegal(plan, shape_of(text_alone(model))).value_or(""),
              HasSubstr("the model has none"));
}

}  // namespace
}  // namespace zplan
