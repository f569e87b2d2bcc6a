#include "planner/lower/blocks/head.h"

namespace zplan {

Head::Head(Maker& maker, const Vocabulary& vocabulary, Param tied, std::int64_t cap)
    : tied_(static_cast<bool>(tied)),
      tokens_(vocabulary.tokens),
      width_(vocabulary.padded / maker.tp()),
      cap_(cap),
      tiles_(vocabulary.tiles),
      weight_(tied) {
  if (tied) return;
  maker.params.begin("head", Part::kHead, Held::kLastStage);
  weight_ = vocabulary.table(maker, "head");
}

void Head::forward(Emission& to, const View& x, const View& logits) const {
  to.kernel(Part::kHead, KernelId::kHeadForward,
            {read(x), to.parameter(weight_), write(logits), to.workspace()});
}

void Head::weight_backward(Emission& to, const View& x, const View& dlogits,
                           const View& dweight) const {
  to.kernel(Part::kHead, Action::kWeightGradient, KernelId::kHeadWeightGradient,
            {read(dlogits), read(x), dweight, to.workspace()});
}

void Head::input_backward(Emission& to, const View& dlogits, const View& dx) const {
  to.kernel(Part::kHead, KernelId::kHeadInputGradient,
            {read(dlogits), to.parameter(weight_), write(dx), to.workspace()});
}

}  // namespace zplan
