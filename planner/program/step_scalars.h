// Layout of the StepScalars buffer, float64[8]: every value of an optimizer step that changes from
// step to step reaches kernels through it, so the Program itself never changes.
#pragma once

namespace zplan {

enum StepScalar : int {
  kLearningRate,
  kBeta1,
  kBeta2,
  kEpsilon,
  kWeightDecay,
  kBiasCorrection1,  // 1 - beta1^t, t = step + 1  [Loshchilov19]
  kBiasCorrection2,  // 1 - beta2^t
  kMaxGradientNorm,  // <= 0: no clipping
  kStepScalarCount,
};

// Layout of the clip buffer, float64[2].
enum ClipScalar : int {
  kClipFactor,  // multiplies every gradient; negative: skip the update (norm not finite)
  kGradientNorm,
  kClipScalarCount,
};

}  // namespace zplan
