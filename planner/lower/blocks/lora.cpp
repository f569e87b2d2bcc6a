#include "planner/lower/blocks/lora.h"

namespace zplan {
namespace {

Param factor(LayerMaker& maker, std::string_view tensor, const char* suffix, const Shape& shape,
             Init init, const Split& split) {
  const bool is_cut = split.kind != Split::Kind::kNone;
  return maker.params.add({.name = maker.naming.of(tensor, suffix),
                           .published = shape,
                           .stored = shape,
                           .init = init,
                           .std = init == Init::kNormal ? maker.naming.std().usual : 0,
                           .decay = true,
                           .split = split,
                           .summed = !is_cut,
                           .is_factor = true});
}

Split only(const Split& split, Split::Kind kind) { return split.kind == kind ? split : Split{}; }

}  // namespace

Lora::Lora(LayerMaker& maker, Part part, std::string_view tensor, const LoraShape& shape,
           std::optional<LayerOperator> op)
    : part_(part), rank_(maker.plan.train.rank), alpha_(maker.plan.train.alpha) {
  down_ = factor(maker, tensor, ".lora_A.weight", {shape.in, rank_}, Init::kNormal,
                 only(shape.split, Split::Kind::kRows));
  up_ = factor(maker, tensor, ".lora_B.weight", {rank_, shape.out}, Init::kZero,
               only(shape.split, Split::Kind::kColumns));
  low_ = maker.values.add({.name = "lora." + std::string(name(part)),
                           .shape = {maker.tokens(), rank_},
                           .dtype = maker.compute(),
                           .of = op});
}

bool Lora::is_beside(const Plan& plan, Part part) {
  if (!plan.train.has_lora()) return false;
  const bool of_mlp = part == Part::kFc1 || part == Part::kFc2;
  switch (plan.train.targets) {
    case LoraTargets::kAll:
      return true;
    case LoraTargets::kAttention:
      return !of_mlp;
    case LoraTargets::kMlp:
      return of_mlp;
    case LoraTargets::kQkv:
      return !of_mlp && part != Part::kProjection;
  }
  return false;
}

void Lora::scale(LayerPass& to, const View& low) const {
  to.kernel(part_, Action::kLoraScale, KernelId::kScale, {update(low)}, {alpha_, rank_});
}

void Lora::forward(LayerPass& to, const View& x, const View& y) const {
  const View& low = to[low_];
  to.kernel(part_, Action::kLoraDown, KernelId::kMatmulForward,
            {read(x), to.parameter(down_), write(low), to.workspace()});
  scale(to, low);
  to.kernel(part_, Action::kLoraUp, KernelId::kMatmulForward,
            {read(low), to.parameter(up_), update(y), to.workspace()});
}

void Lora::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dlow = to.handed_tokens(part_, "d.lora", rank_);
  if (to.emits_inputs()) {
    to.kernel(part_, Action::kLoraUp, KernelId::kLinearInputGradient,
              {read(dy), to.parameter(up_), write(dlow), to.workspace()});
    scale(to, dlow);
    to.kernel(part_, Action::kLoraDown, KernelId::kLinearInputGradient,
              {read(dlow), to.parameter(down_), update(dx), to.workspace()});
  }
  if (!to.emits_weights()) return;
  to.kernel(part_, Action::kLoraDownWeight, KernelId::kMatmulWeightGradient,
            {read(x), read(dlow), to.gradient(down_), to.workspace()});
  to.kernel(part_, Action::kLoraUpWeight, KernelId::kMatmulWeightGradient,
            {read(to[low_]), read(dy), to.gradient(up_), to.workspace()});
}

}  // namespace zplan
