// This stands between the norm behind the layers and the output matrix of a model of masked tokens
// [Devlin19 sec 3.1]: a product of h x h, with a bias where linear layers have some, an activation,
// a norm. Every tensor parallel rank has all of it.
#pragma once

#include "planner/lower/blocks/mlp.h"
#include "planner/lower/blocks/norm.h"

namespace zplan {

class HeadTransform {
 public:
  HeadTransform(Maker& maker, const NormKind& norm, ActivationShape activation, bool bias);

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

 private:
  Param weight_, bias_;  // [h, h], [h] or none
  Attributes activation_;
  NormBlock norm_;
};

}  // namespace zplan
