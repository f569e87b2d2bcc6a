// Layout of the StepScalars buffer, float64[11]: every value of an optimizer step that changes from
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
  kLossScale,        // multiplies the gradient of the loss; 1 without loss scaling
  kInactive,         // 1: this step updates nothing (the first of delayed updates)
  kUpdateNumber,     // from 0, as bias corrections count; rounding draws depend on it
  kStepScalarCount,
};

// Layout of the clip buffer, float64[2].
enum ClipScalar : int {
  kClipFactor,  // multiplies every gradient; negative: skip the update (norm not finite)
  kGradientNorm,
  kClipScalarCount,
};

// Layout of the loss scale's state, float64[3], on the host [Micikevicius18 sec 3.2].
enum LossScaleState : int {
  kScale,
  kGoodSteps,     // since the scale last changed
  kSkippedSteps,  // of all: they do not advance the bias corrections
  kLossScaleStateCount,
};

}  // namespace zplan
