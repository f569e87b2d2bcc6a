#include "planner/lower/blocks/token_gate.h"

namespace zplan {

// A vector that tokens are multiplied by.
static Param make_vector(LayerMaker& maker) {
  const Shape shape{maker.h(), 1};
  return maker.params.add({.name = maker.naming.of("shared_gate", ".weight"),
                           .published = shape,
                           .stored = shape,
                           .init = Init::kNormal,
                           .std = maker.naming.std().usual,
                           .decay = true,
                           .summed = true,
                           .is_matrix = false});
}

TokenGate::TokenGate(LayerMaker& maker, OperatorSet of)
    : weight_(make_vector(maker)),
      logits_(maker.values.add({.name = "logits.shared_gate",
                                .shape = {maker.tokens(), 1},
                                .dtype = maker.kernels.statistics,
                                .of = of,
                                .in_backward = Read::kFirst})) {}

void TokenGate::forward(LayerPass& to, const View& x) const {
  to.kernel(Part::kSharedGate, KernelId::kRouterForward,
            {read(x), to.parameter(weight_), write(to[logits_]), to.workspace()});
}

void TokenGate::pass(LayerPass& to, const View& y) const {
  to.kernel(Part::kSharedGate, Action::kChoose, KernelId::kGateRows,
            {read(to[logits_]), update(y)});
}

void TokenGate::backward(LayerPass& to, const View& x, const View& y, const View& dy,
                         const View& dx) const {
  const View dlogits = to.handed(Part::kSharedGate, "d.shared_gate", to[logits_].shape, false);
  if (to.emits_inputs())
    to.kernel(Part::kSharedGate, Action::kChoose, KernelId::kGateRowsBackward,
              {read(to[logits_]), read(y), update(dy), write(dlogits)});
  if (to.emits_weights() && to.trains(weight_))
    to.kernel(Part::kSharedGate, Action::kWeightGradient, KernelId::kMatmulWeightGradient,
              {read(x), read(dlogits), to.gradient(weight_), to.workspace()});
  if (to.emits_inputs())
    to.kernel(Part::kSharedGate, KernelId::kLinearInputGradient,
              {read(dlogits), to.parameter(weight_), dx, to.workspace()});
}

}  // namespace zplan
