// This has what stands around the layers of a vision tower (models/vision_shape.h): the product of
// patches with positions and norm, and projectors to the columns of the text model. Every tensor
// parallel rank has all of both and works on all patches; the layers between them are ordinary
// ones, of sizes of their own.
#pragma once

#include <optional>
#include <vector>

#include "models/vision_shape.h"
#include "planner/lower/blocks/layer_kind.h"

namespace zplan {

class PatchEmbedding {
 public:
  PatchEmbedding(Maker& maker, const VisionShape& vision);

  // The sum is what the norm reads; without a norm it is x itself and is not used.
  struct Result {
    View sum;
    Normed normed;
  };
  const std::optional<NormBlock>& norm() const { return norm_; }
  // Turns patches [T, c] of all images into the input of the layers, [T, h].
  void forward(Emission& to, const View& pixels, const Result& result) const;
  // Gives the gradients of its parameters from that of the layers' input.
  void backward(Emission& to, const View& pixels, const Result& result, const View& dx) const;

 private:
  View by_image(View x) const;  // [images, patches, h]
  Attributes row_of_patch() const;

  std::int64_t patches_;             // of an image
  std::int64_t rows_;                // learned ones
  Param weight_, bias_, positions_;  // [c, h], [h], [rows, h]
  std::optional<NormBlock> norm_;
};

// A step of a projector turns [T, in] into [T, out] or, where patches become tokens, [T / m, out].
class ProjectorBlock {
 public:
  // The number tells the steps of all projectors apart.
  ProjectorBlock(Maker& maker, const ProjectorStep& step, std::int64_t merge, std::int64_t number);

  // Returns whether what it gives are the same bytes as x: patches side by side.
  bool is_view() const { return step_.kind == ProjectorStep::Kind::kMerge; }
  const std::optional<NormBlock>& norm() const { return norm_; }
  Shape result(const Shape& x) const;
  bool has_parameters() const { return weight_ || norm_; }
  void forward(Emission& to, const View& x, const Normed& result) const;
  // dy is overwritten; dx is a view of it where that has room, empty where nobody asks for it.
  void backward(Emission& to, const View& x, const Normed& result, const View& dy,
                const View& dx) const;
  // Returns whether the gradient of x stands in that of what it gives.
  bool is_in_place() const {
    return step_.kind == ProjectorStep::Kind::kGelu || step_.kind == ProjectorStep::Kind::kSilu;
  }

 private:
  Attributes activation() const;

  ProjectorStep step_;
  std::int64_t merge_;
  std::optional<NormBlock> norm_;
  Param weight_, bias_;  // [in, out], [out]
};

struct VisionTower {
  VisionShape shape;
  LayerRange layers;             // behind those of the model
  std::vector<LayerKind> kinds;  // consecutive layers whose attention sees as much
  PatchEmbedding embedding;
  std::vector<std::vector<ProjectorBlock>> projectors;
  bool is_trained, has_trained_projectors;
};

// While it lives, the sizes of the stage are those of the tower.
class InVisionTower {
 public:
  InVisionTower(Sizes& sizes, const VisionShape& vision);
  ~InVisionTower();
  InVisionTower(const InVisionTower&) = delete;
  InVisionTower& operator=(const InVisionTower&) = delete;

 private:
  Sizes& sizes_;
  std::int64_t hidden_, sequence_, turn_layers_;
  bool has_pattern_;
};

}  // namespace zplan
