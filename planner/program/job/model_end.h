// Which parts of a model lie outside its layers.
#pragma once

#include <cstdint>

#include "planner/program/job/ops.h"

namespace zplan {

enum class ModelEnd : std::uint8_t { kNone, kEmbedding, kHead };

// Returns the end that a part belongs to: what is looked up, the norm of what an encoder gives, a
// vision tower around its layers, or what follows the last layer. kNone is a part of layers, or of
// no model.
constexpr ModelEnd model_end_of(Part part) {
  switch (part) {
    case Part::kEmbedding:
    case Part::kEmbeddingNorm:
    case Part::kPosition:
    case Part::kEncoderPosition:
    case Part::kEncoderNorm:
    case Part::kPatches:
    case Part::kPatchPosition:
    case Part::kPatchNorm:
    case Part::kProjector:
    case Part::kProjectorNorm:
    case Part::kProjectorActivation:
    case Part::kImageRows:
      return ModelEnd::kEmbedding;
    case Part::kFinalNorm:
    case Part::kHeadDense:
    case Part::kHeadActivation:
    case Part::kHeadNorm:
    case Part::kHead:
    case Part::kHeadBias:
    case Part::kLoss:
    case Part::kMtpEmbedding:
    case Part::kMtpHidden:
    case Part::kMtpProjection:
      return ModelEnd::kHead;
    default:
      return ModelEnd::kNone;
  }
}

}  // namespace zplan
