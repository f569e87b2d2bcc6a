#include "planner/lower/blocks/router.h"

#include <cmath>

namespace zplan {
namespace {

// Factors of the model reach kernels as multiples of this.
constexpr double kUnit = 1e-9;

std::int64_t in_units(double factor) { return std::llround(factor / kUnit); }

Value kept(LayerMaker& maker, const char* name, const Shape& shape, DType dtype,
           Read in_backward = Read::kLate) {
  return maker.values.add(
      {.name = name, .shape = shape, .dtype = dtype, .of = kOfExperts, .in_backward = in_backward});
}

// A number for each expert, that all ranks have.
ParamSpec bias_of(const LayerMaker& maker, const ExpertShape& shape) {
  return {.name = maker.naming.of("router", ".bias"),
          .published = {shape.count},
          .stored = {shape.count},
          .summed = true};
}

}  // namespace

Router::Router(LayerMaker& maker, const ExpertShape& shape, bool bias)
    : shape_(shape),
      sizes_(maker, shape),
      tokens_(sizes_.tokens),
      batch_(maker.b()),
      ranks_(maker.plan.parallel.routes_own_tokens() ? maker.tp() : 1),
      parts_(maker.plan.batch.global_batch * maker.tp() / ranks_),
      weight_(maker.matrix("router", {maker.h(), shape.count}, maker.naming.std().usual, {})) {
  const DType scores = maker.kernels.statistics;
  if (bias) bias_ = maker.params.add(bias_of(maker, shape));
  if (shape.selection_bias) {
    ParamSpec spec = bias_of(maker, shape);
    spec.balance_rate = in_units(shape.bias_rate);
    choice_bias_ = maker.params.add(std::move(spec));
  }
  logits_ = kept(maker, "logits.router", {tokens_, shape.count}, scores);
  chosen_ = kept(maker, "chosen", chosen(), DType::kI32);
  weights_ = kept(maker, "weights.router", chosen(), scores, Read::kFirst);
  rows_ = kept(maker, "rows", chosen(), DType::kI32);
  counts_ = kept(maker, "counts", sizes_.sent_counts(), DType::kI32,
                 sizes_.are_exchanged() ? Read::kFirst : Read::kLate);
  if (ranks_ > 1 && (sizes_.capacity > 0 || shape_.balance > 0))
    choices_ = kept(maker, "choices", {ranks_, batch_, shape.count}, DType::kF64);
}

Attributes Router::scores() const {
  return {shape_.scores == Scores::kSigmoid ? 1 : 0, shape_.renormalised ? 1 : 0,
          in_units(shape_.scale)};
}

Attributes Router::choice() const {
  Attributes all = scores();
  all[3] = shape_.groups;
  all[4] = shape_.groups_per_token;
  return all;
}

Attributes Router::choices() const {
  const bool has_groups = shape_.groups_per_token < shape_.groups;
  return {shape_.per_token, shape_.count, shape_.groups, has_groups ? shape_.groups_per_token : 0};
}

void Router::forward(LayerPass& to, const View& x) const {
  if (bias_) {
    to.kernel(
        Part::kRouter, KernelId::kRouterLinearForward,
        {read(x), to.parameter(weight_), to.parameter(bias_), write(to[logits_]), to.workspace()});
  } else {
    to.kernel(Part::kRouter, KernelId::kRouterForward,
              {read(x), to.parameter(weight_), write(to[logits_]), to.workspace()});
  }
  if (choice_bias_) {
    to.kernel(
        Part::kRouter, Action::kChoose, KernelId::kChooseExperts,
        {read(to[logits_]), write(to[chosen_]), write(to[weights_]), to.parameter(choice_bias_)},
        choice());
  } else {
    to.kernel(Part::kRouter, Action::kChoose, KernelId::kChooseExperts,
              {read(to[logits_]), write(to[chosen_]), write(to[weights_])}, choice());
  }
  count(to);
  // What a replay drops has been counted.
  View dropped = to.expert_sums();
  dropped.shape = {1};
  dropped = to.phase() == Phase::kForward
                ? update(dropped)
                : write(to.scratch("dropped", dropped.shape, dropped.dtype));
  if (sizes_.capacity > 0 && choices_) {
    to.kernel(
        Part::kRouter, Action::kPlace, KernelId::kPlaceRows,
        {read(to[chosen_]), write(to[rows_]), write(to[counts_]), dropped, read(to[choices_])},
        {batch_, sizes_.capacity, sizes_.room, place(to)});
  } else {
    to.kernel(Part::kRouter, Action::kPlace, KernelId::kPlaceRows,
              {read(to[chosen_]), write(to[rows_]), write(to[counts_]), dropped},
              {ranks_ == 1 ? batch_ : 1, sizes_.capacity, sizes_.room});
  }
}

// Choices of each expert: of the step, which a replay has counted, and by sequence of all ranks
// that have a part of it.
void Router::count(LayerPass& to) const {
  if (shape_.bias_rate > 0 && to.trains(choice_bias_) && to.phase() == Phase::kForward)
    to.kernel(Part::kRouter, Action::kAccumulate, KernelId::kCountChoices,
              {read(to[chosen_]), update(to.choice_loads(choice_bias_))}, {1});
  if (!choices_) return;
  const View own = to.scratch("choices.own", {batch_, shape_.count}, DType::kF64);
  to.kernel(Part::kRouter, Action::kPack, KernelId::kCountChoices, {read(to[chosen_]), write(own)},
            {ranks_, place(to)});
  to.gather_parts(Part::kRouter, own, to[choices_]);
}

Attribute Router::place(const LayerPass& to) const { return to.by_place(kTensorAxis, 1); }

void Router::logits_backward(LayerPass& to, const View& dweights, const View& dlogits) const {
  to.kernel(Part::kRouter, Action::kChoose, KernelId::kChooseExpertsBackward,
            {read(to[logits_]), read(to[chosen_]), read(dweights), write(dlogits)}, scores());
  if (shape_.balance == 0) return;
  View loss = to.expert_sums();
  loss.shape = {1};
  loss.offset = size_of(loss.dtype);
  const Attributes balance{scores()[0], batch_, in_units(shape_.balance), parts_,
                           choices_ ? place(to) : Attribute{}};
  if (choices_) {
    to.kernel(Part::kRouter, Action::kBalance, KernelId::kBalanceExperts,
              {read(to[logits_]), read(to[chosen_]), read(to.scalars()), update(dlogits),
               update(loss), read(to[choices_])},
              balance);
  } else {
    to.kernel(
        Part::kRouter, Action::kBalance, KernelId::kBalanceExperts,
        {read(to[logits_]), read(to[chosen_]), read(to.scalars()), update(dlogits), update(loss)},
        balance);
  }
}

void Router::weight_backward(LayerPass& to, const View& x, const View& dlogits) const {
  if (bias_) {
    to.kernel(Part::kRouter, Action::kWeightGradient, KernelId::kLinearWeightGradient,
              {read(x), read(dlogits), to.gradient(weight_), to.gradient(bias_), to.workspace()});
  } else {
    to.kernel(Part::kRouter, Action::kWeightGradient, KernelId::kMatmulWeightGradient,
              {read(x), read(dlogits), to.gradient(weight_), to.workspace()});
  }
  // What choices follow follows no gradient.
  const View dchoice = choice_bias_ ? to.gradient(choice_bias_) : View{};
  if (choice_bias_ && dchoice.access == Access::kWrite)
    to.kernel(Part::kRouter, Action::kBiasGradient, KernelId::kFillZero, {dchoice});
}

void Router::backward(LayerPass& to, const View& x, const View& dweights, const View& dx) const {
  const View dlogits = to.handed(Part::kRouter, "d.logits", {tokens_, shape_.count}, false);
  if (to.emits_inputs()) logits_backward(to, dweights, dlogits);
  if (to.emits_weights() && to.trains(weight_)) weight_backward(to, x, dlogits);
  if (to.emits_inputs())
    to.kernel(Part::kRouter, KernelId::kLinearInputGradient,
              {read(dlogits), to.parameter(weight_), update(dx), to.workspace()});
  to.done(weight_);
}

}  // namespace zplan
