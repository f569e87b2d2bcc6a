// A LayerNorm [Ba16], which keeps mean and rstd, with gain and bias, a gain alone or neither, or an
// RMSNorm [Zhang19], which has neither bias nor mean, over the last dimension.
#pragma once

#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/blocks/maker.h"
#include "planner/program/kernels/attribute_values.h"

namespace zplan {

struct NormKind {
  Norm norm = Norm::kLayerNorm;
  std::int64_t epsilon = kUsualNormEpsilon;  // in units of 1e-12
};
inline NormKind norm_of(const ModelConfig& model) { return {model.norm, model.layer.norm_epsilon}; }

// What a norm gives: [T, h], [T], [T].
struct Normed {
  View y, mean, rstd;
};

class NormBlock {
 public:
  // `summed` as in ParamSpec.
  NormBlock(Maker& maker, const NormKind& kind, Part part, std::string_view tensor,
            std::int64_t width, bool summed = false);

  void forward(Emission& to, const View& x, const Normed& result) const;
  // In the second part of a backward: what the first has given of the weights' gradients.
  void take_gradients(LayerPass& to) const;
  // Writes dx or, as its access says, adds to it.
  void backward(Emission& to, const View& dy, const View& x, const Normed& result,
                const View& dx) const;

  // x + y, with the bias of y where there is one, and the norm of that in one kernel.
  bool fuses_residual(bool with_bias) const {
    return norm_ == Norm::kLayerNorm ? with_bias : norm_ == Norm::kRmsNorm && !with_bias;
  }
  void forward_of_sum(Emission& to, const View& x, const View& y, Param bias, const View& sum,
                      const Normed& result) const;

  Part part() const { return part_; }
  Param gain() const { return gain_; }  // none: it has no parameters
  bool has_mean() const { return norm_ != Norm::kRmsNorm; }

 private:
  bool has_bias() const { return static_cast<bool>(bias_); }
  void centred_backward(Emission& to, const View& dy, const View& x, const Normed& result,
                        const View& dx) const;

  Norm norm_;
  Part part_;
  std::int64_t epsilon_;  // as an attribute
  Param gain_, bias_;     // [h]
};

}  // namespace zplan
