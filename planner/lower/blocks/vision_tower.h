// What stands around the layers of a vision tower (models/vision_shape.h): the product of patches
// with their positions and norm, and the projectors to the columns of the text model. Every tensor
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

  // `sum`: before the norm; x itself where there is none.
  struct Result {
    View sum;
    Normed normed;
  };
  const std::optional<NormBlock>& norm() const { return norm_; }
  // Of patches [T, c] of images, T = b s, to [T, h].
  void forward(Emission& to, const View& pixels, const Result& result) const;
  // From the gradient of x.
  void backward(Emission& to, const View& pixels, const Result& result, const View& dx) const;

 private:
  View by_image(View x) const;  // [images, patches, h]
  Attributes row_of_patch() const;

  std::int64_t patches_;             // of an image
  std::int64_t rows_;                // learned ones
  Param weight_, bias_, positions_;  // [c, h], [h], [rows, h]
  std::optional<NormBlock> norm_;
};

// A step of a projector, from [T, in] to [T, out] or, where patches become tokens, [T / m, out].
class ProjectorBlock {
 public:
  // `number` among the steps of all projectors.
  ProjectorBlock(Maker& maker, const ProjectorStep& step, std::int64_t merge, std::int64_t number);

  // What it gives: of a norm with its statistics. Patches side by side are the same bytes.
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

// The sizes of the stage while it lives are those of the tower.
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
