// What stands between the norm behind the layers and the output matrix of a model of masked tokens,
// and the bias behind that [Devlin19 sec 3.1]: a product of h x h with its bias, an activation, a
// norm. Every tensor parallel rank has all of the product, and the bias of its piece of the
// vocabulary.
#pragma once

#include "planner/lower/blocks/embedding.h"
#include "planner/lower/blocks/mlp.h"
#include "planner/lower/blocks/norm.h"

namespace zplan {

class HeadTransform {
 public:
  HeadTransform(Maker& maker, const Vocabulary& vocabulary, const NormKind& norm,
                ActivationShape activation);

  // Of the rank's tokens [T, h]: before the activation, after it, and normalised.
  struct Result {
    View dense, activated;
    Normed normed;
  };
  bool has_mean() const { return norm_.has_mean(); }
  void forward(Emission& to, const View& x, const Result& result) const;
  // dy becomes the gradient of what the product gives, dx that of x.
  void backward(Emission& to, const View& x, const Result& result, const View& dy,
                const View& dx) const;

  void fetch_bias(Emission& to) const { to.parameter(vocabulary_bias_); }
  void add_bias(Emission& to, const View& logits) const;
  // With the gradient of some of the logits: of the first ones, or of others.
  void bias_gradient(Emission& to, const View& dlogits, bool is_first) const;
  void end_bias(Emission& to) const { to.done(vocabulary_bias_); }

 private:
  Param weight_, bias_;  // [h, h], [h]
  Attributes activation_;
  NormBlock norm_;
  Param vocabulary_bias_;  // [V]
};

}  // namespace zplan
