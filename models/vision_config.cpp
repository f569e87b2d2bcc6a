#include "models/vision_config.h"

#include <fmt/format.h>

namespace zplan {
namespace {

struct VisionSize {
  std::string_view name;
  std::int64_t VisionShape::*member;
  std::int64_t max;
  bool is_stated;  // a file with a tower states it
};
constexpr std::int64_t kMostPatches = 1 << 20;
constexpr VisionSize kVisionSizes[] = {
    {"vision_layers", &VisionShape::layers, 1 << 10, true},
    {"vision_hidden", &VisionShape::hidden, 1 << 16, true},
    {"vision_heads", &VisionShape::heads, 1 << 10, true},
    {"vision_ffn", &VisionShape::ffn, 1 << 18, true},
    {"vision_patch", &VisionShape::patch, 1 << 16, true},
    {"vision_patches", &VisionShape::patches, kMostPatches, true},
    {"vision_images", &VisionShape::images, 1 << 12, false},
    {"vision_merge", &VisionShape::merge, 1 << 8, false},
    {"vision_positions", &VisionShape::positions, kMostPatches, false},
    {"vision_window", &VisionShape::window, kMostPatches, false},
    {"vision_full_every", &VisionShape::full_every, 1 << 10, false}};
struct VisionSwitch {
  std::string_view name;
  bool VisionShape::*member;
};
constexpr VisionSwitch kVisionSwitches[] = {{"vision_rms_norm", &VisionShape::rms_norm},
                                            {"vision_gated_mlp", &VisionShape::gated_mlp},
                                            {"vision_biases", &VisionShape::biases},
                                            {"vision_patch_bias", &VisionShape::patch_bias},
                                            {"vision_qk_norm", &VisionShape::qk_norm},
                                            {"vision_post_norms", &VisionShape::post_norms},
                                            {"vision_embedding_norm", &VisionShape::embedding_norm},
                                            {"vision_rope", &VisionShape::rope}};
constexpr std::string_view kProjectorField = "vision_projector";
constexpr std::int64_t kVisionTheta = 10'000;  // [Su21]

void refuse_without_tower(JsonObject& object) {
  const auto refuse = [&](std::string_view name) {
    if (const auto node = object.optional_member(name))
      node->fail_expected(fmt::format("no {} without {}", name, kVisionSizes[0].name));
  };
  for (const VisionSize& size : kVisionSizes) refuse(size.name);
  for (const VisionSwitch& one : kVisionSwitches) refuse(one.name);
  refuse(kProjectorField);
}

}  // namespace

std::optional<VisionShape> read_vision(JsonObject& object) {
  if (!object.optional_member(kVisionSizes[0].name)) {
    refuse_without_tower(object);
    return std::nullopt;
  }
  VisionShape vision;
  for (const VisionSize& size : kVisionSizes) {
    const auto node = size.is_stated ? std::optional(object.member(size.name))
                                     : object.optional_member(size.name);
    if (node) vision.*size.member = node->integer(1, size.max);
  }
  for (const VisionSwitch& one : kVisionSwitches)
    if (const auto node = object.optional_member(one.name)) vision.*one.member = node->boolean();
  vision.projector = object.member(kProjectorField).non_empty_string();
  return vision;
}

void add_vision_fields(const ModelConfig& model, std::vector<ModelField>& all) {
  if (!model.vision) return;
  const VisionShape& vision = *model.vision;
  for (const VisionSize& size : kVisionSizes)
    if (size.is_stated || vision.*size.member != VisionShape{}.*size.member)
      all.push_back({size.name, vision.*size.member});
  for (const VisionSwitch& one : kVisionSwitches) all.push_back({one.name, vision.*one.member});
  all.push_back({kProjectorField, FeatureValue(std::in_place_type<std::string>, vision.projector)});
}

std::optional<VisionProblem> vision_contradiction(const ModelConfig& model) {
  if (!model.vision) return std::nullopt;
  const VisionShape& v = *model.vision;
  const std::pair<std::string_view, bool> others[] = {
      {"encoder_layers", model.encoder_layers > 0},
      {"mtp_layers", model.mtp_layers > 0},
      {"bare_first_branch", model.layer.bare_first_branch},
      {"bidirectional", model.layer.bidirectional}};
  for (const auto& [field, is_there] : others)
    if (is_there) return VisionProblem{field, fmt::format("expected no {} with a tower", field)};
  if (v.hidden % v.heads != 0 || (v.rope && v.hidden / v.heads % 2 != 0))
    return VisionProblem{"vision_heads",
                         fmt::format("expected heads that divide vision_hidden, {}{}, got {}",
                                     v.hidden, v.rope ? ", into even sizes" : "", v.heads)};
  if (v.patches % v.merge != 0)
    return VisionProblem{"vision_merge", fmt::format("expected a number that divides the {} "
                                                     "patches of an image, got {}",
                                                     v.patches, v.merge)};
  if (v.window > 0 && v.patches % v.window != 0)
    return VisionProblem{"vision_window", fmt::format("expected a number that divides the {} "
                                                      "patches of an image, got {}",
                                                      v.patches, v.window)};
  if (const auto fault = projector_fault(v, model.hidden))
    return VisionProblem{kProjectorField, "expected " + *fault};
  return std::nullopt;
}

ModelConfig tower_layers_of(const ModelConfig& model) {
  const VisionShape& v = *model.vision;
  ModelConfig tower;
  set_architecture(tower, Architecture::kLlama);
  tower.position = v.rope ? Position::kRope : Position::kNone;
  tower.rope_theta = v.rope ? kVisionTheta : 0;
  tower.norm = v.rms_norm ? Norm::kRmsNorm : Norm::kLayerNorm;
  tower.biases = v.biases ? Biases::kAll : Biases::kNone;
  tower.gated_mlp = v.gated_mlp;
  tower.qk_norm = v.qk_norm;
  tower.layer.post_norms = v.post_norms;
  tower.layer.bidirectional = true;
  tower.layers = v.layers;
  tower.hidden = v.hidden;
  tower.heads = tower.kv_heads = v.heads;
  tower.ffn = v.ffn;
  tower.vocab = 1;
  tower.sequence = v.all_patches();
  return tower;
}

ModelConfig text_alone(ModelConfig model) {
  model.vision.reset();
  return model;
}

}  // namespace zplan
