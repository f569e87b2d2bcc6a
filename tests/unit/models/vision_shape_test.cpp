// These tests read vision towers from model files, and refuse those that contradict themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/model_formulas.h"
#include "models/vision_config.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

using ProjectorKind = ProjectorStep::Kind;
using testing::HasSubstr;

std::string file(const std::string& more) {
  return R"({"schema": "zplan.model/1", "name": "seen", "architecture": "llama", "layers": 2,
             "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 96, "vocab": 256, "sequence": 32)" +
         more + "}";
}
std::string tower(const std::string& projector, const std::string& more = "") {
  return file(R"(, "vision_layers": 2, "vision_hidden": 32, "vision_heads": 4, "vision_ffn": 48,
                 "vision_patch": 24, "vision_patches": 16, "vision_projector": ")" +
              projector + "\"" + more);
}

std::string refused(const std::string& text) {
  try {
    parse_model(text, "seen.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(VisionShape, StepsOfAProjectorFollowEachOther) {
  const ModelConfig model =
      parse_model(tower("layernorm merge 40+bias swiglu 64", R"(, "vision_merge": 4)"), "seen");
  const Projector steps = model.vision->projectors().front();
  ASSERT_EQ(steps.size(), 5);
  EXPECT_EQ(steps[0].kind, ProjectorKind::kLayerNorm);
  EXPECT_FALSE(steps[0].merged);
  EXPECT_EQ(steps[2].in, 4 * 32);
  EXPECT_TRUE(steps[2].bias && steps[2].merged);
  EXPECT_EQ(steps[4].in, 20);
  EXPECT_EQ(model.vision->tokens(), 4);
  // W of patches, a LayerNorm, two products and a bias.
  EXPECT_EQ(model.vision->parameters_outside(), 24 * 32 + 2 * 32 + 129 * 40 + 20 * 64);
}

TEST(VisionShape, CountsItsLayersAsThoseOfATextModelOfItsSizes) {
  const ModelConfig model = parse_model(tower("64"), "seen");
  // A layer has attention, an MLP, their biases and two norms.
  const std::int64_t layer = 4 * 32 * 32 + 2 * 32 * 48 + (3 + 1) * 32 + 48 + 32 + 4 * 32;
  EXPECT_EQ(vision_parameter_count(model), 2 * layer + 24 * 32 + 32 * 64);
  EXPECT_EQ(parameter_count(model) - parameter_count(text_alone(model)),
            vision_parameter_count(model));
  // Each of 16 patches sees 16.
  const std::int64_t matrices = 4 * 32 * 32 + 2 * 32 * 48;
  EXPECT_EQ(vision_flops_per_sequence(model).value,
            2 * 16 * (2 * matrices + 24 * 32 + 32 * 64) + 2 * 2 * 2 * 16 * 16 * 32);
}

TEST(VisionShape, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(refused(tower("32")), HasSubstr("/vision_projector: expected steps that give 64"));
  EXPECT_THAT(refused(tower("64 tanh")), HasSubstr("got \"tanh\""));
  EXPECT_THAT(refused(tower("64", R"(, "vision_merge": 4)")), HasSubstr("expected merge or mean"));
  EXPECT_THAT(refused(tower("merge 64", R"(, "vision_merge": 3)")),
              HasSubstr("/vision_merge: expected a number that divides the 16 patches"));
  EXPECT_THAT(refused(tower("64", R"(, "vision_window": 5)")),
              HasSubstr("/vision_window: expected a number that divides the 16 patches"));
  EXPECT_THAT(refused(tower("64", R"(, "mtp_layers": 1)")),
              HasSubstr("/mtp_layers: expected no mtp_layers with a tower"));
  EXPECT_THAT(refused(file(R"(, "vision_images": 2)")),
              HasSubstr("expected no vision_images without vision_layers"));
}

}  // namespace
}  // namespace zplan
