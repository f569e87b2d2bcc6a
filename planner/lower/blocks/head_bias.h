// The bias of the logits: each tensor parallel rank has that of its piece of the vocabulary.
#pragma once

#include "planner/lower/blocks/embedding.h"

namespace zplan {

class HeadBias {
 public:
  HeadBias(Maker& maker, const Vocabulary& vocabulary) {
    maker.params.begin("head_bias", Part::kHeadBias, Held::kLastStage);
    bias_ = maker.params.add({maker.naming.of("head", ".bias"),
                              {vocabulary.tokens},
                              {vocabulary.padded},
                              Init::kZero,
                              0,
                              false,
                              {Split::Kind::kRows, {}}});
  }

  void fetch(Emission& to) const { to.parameter(bias_); }
  void add(Emission& to, const View& logits) const {
    to.kernel(Part::kHeadBias, KernelId::kAddBias, {update(logits), to.parameter(bias_)});
  }
  // Takes the gradient of some of the logits: of the first ones, or of others.
  void backward(Emission& to, const View& dlogits, bool is_first) const {
    if (!to.trains(bias_)) return;
    const View dbias = to.gradient(bias_);
    to.kernel(Part::kHeadBias, Action::kBiasGradient, KernelId::kBiasGradient,
              {read(dlogits), is_first ? dbias : update(dbias), to.workspace()});
  }
  void end(Emission& to) const { to.done(bias_); }

 private:
  Param bias_;  // [V]
};

}  // namespace zplan
