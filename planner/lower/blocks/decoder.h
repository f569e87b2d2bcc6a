// A decoder as blocks, with an encoder before it or without: what stands before the layers, the
// kinds of layers, what stands after them [Radford19 sec 2.3], [Touvron23]. Which blocks a model
// has is decided here alone, by its features; its family gives names and initialisation only
// (naming.h).
#pragma once

#include <span>
#include <vector>

#include "planner/lower/blocks/embedding.h"
#include "planner/lower/blocks/head.h"
#include "planner/lower/blocks/head_bias.h"
#include "planner/lower/blocks/head_transform.h"
#include "planner/lower/blocks/layer_kind.h"
#include "planner/lower/blocks/vision_tower.h"

namespace zplan {

// What stands before and after the first layers of a model whose other layers attend to what these
// give [Vaswani17 sec 3.1].
struct Encoder {
  std::int32_t layers = 0;
  Embedding embedding;
  NormBlock norm;
};

// A module of multi-token prediction, without its layer (models/model_config.h).
struct MtpModule {
  NormBlock embedding_norm, hidden_norm;
  Param projection;  // [2h, h]: of the embedding above, below of what the module before gives
  NormBlock final_norm;
};

// Layers of a pattern come in whole turns of it where the plan has them so, or always.
enum class PatternTurns : std::uint8_t { kAsPlanned, kWhole };

class Decoder {
 public:
  // The first layers may be of a kind of their own: those of an encoder, or without experts.
  Decoder(const ModelConfig& model, const Plan& plan, const KernelSet& kernels,
          PatternTurns turns = PatternTurns::kAsPlanned);
  // The layers are those of several models, which take turns.
  Decoder(const ModelConfig& model, std::span<const ModelConfig> kinds, const Plan& plan,
          const KernelSet& kernels);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const Sizes& sizes() const { return maker_; }
  const ParamTable& params() const { return params_; }
  const Embedding& embedding() const { return embedding_; }
  const std::optional<NormBlock>& embedding_norm() const { return embedding_norm_; }
  const std::optional<Encoder>& encoder() const { return encoder_; }
  // The kinds of layers, which come in turn, or each has layers of its own.
  const std::vector<LayerKind>& layers() const { return layers_; }
  const NormBlock& final_norm() const { return final_norm_; }
  const std::optional<HeadTransform>& head_transform() const { return head_transform_; }
  const std::optional<HeadBias>& head_bias() const { return head_bias_; }
  const Head& head() const { return head_; }
  const std::optional<VisionTower>& tower() const { return tower_; }
  const std::vector<MtpModule>& mtp() const { return mtp_; }
  double mtp_loss() const { return mtp_loss_; }  // all modules' share of the loss
  bool has_experts() const { return has_experts_; }
  bool sees_both_ways() const { return sees_both_ways_; }
  // The head's input is scaled by this, as attributes of the kernel; none: it is read as it is.
  const std::optional<Attributes>& logit_scale() const { return logit_scale_; }

 private:
  // What consecutive layers are like; no layers: these come in turn.
  struct Kind {
    ModelConfig model;
    LayerRange layers{};
  };
  Decoder(const ModelConfig& model, const std::vector<Kind>& kinds, const Plan& plan,
          const KernelSet& kernels);
  static std::vector<Kind> kinds_of(const ModelConfig& model, const Plan& plan, PatternTurns turns);
  static std::vector<Kind> kinds_of_pattern(const ModelConfig& model, bool in_turns);
  static std::vector<Kind> kinds_beside_tower(const ModelConfig& model);
  static std::vector<LayerKind> make_layers(const std::vector<Kind>& kinds, const Maker& maker);

  ParamTable params_;  // as the blocks below state them, in the order of a forward
  Maker maker_;
  Vocabulary vocabulary_;
  Embedding embedding_;
  std::optional<NormBlock> embedding_norm_;
  std::optional<Encoder> encoder_;
  std::vector<LayerKind> layers_;
  NormBlock final_norm_;
  std::optional<HeadTransform> head_transform_;
  std::optional<HeadBias> head_bias_;
  Head head_;
  std::vector<MtpModule> mtp_;
  std::optional<VisionTower> tower_;
  double mtp_loss_;
  bool has_experts_, sees_both_ways_;
  std::optional<Attributes> logit_scale_;
};

}  // namespace zplan
