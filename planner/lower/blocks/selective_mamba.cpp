#include "planner/lower/blocks/selective_mamba.h"

#include <algorithm>
#include <string>
#include <utility>

namespace zplan {
namespace {

struct ShortNames {
  Part down_part, norm_part;
  const char *down, *norm;
};
constexpr ShortNames kShorts[] = {
    {Part::kStepDown, Part::kStepNorm, "mamba1_step_down", "mamba1_step_norm"},
    {Part::kStateInput, Part::kStateInputNorm, "mamba1_input", "mamba1_input_norm"},
    {Part::kStateOutput, Part::kStateOutputNorm, "mamba1_output", "mamba1_output_norm"}};

Value channels_value(LayerMaker& maker, const char* name, std::int64_t width) {
  return maker.values.add({.name = name,
                           .shape = {maker.b(), maker.s(), width / maker.pieces()},
                           .dtype = maker.compute()});
}

// The decays of the numbers of states, one row of all channels for each.
Param make_decays(LayerMaker& maker, const SelectiveShape& shape) {
  const Shape all{shape.state, shape.inner};
  ParamSpec spec{maker.naming.of("mamba1_a_log", ""),        all, all, Init::kZero, 0, false,
                 Split{Split::Kind::kColumns, {shape.inner}}};
  spec.is_matrix = false;
  return maker.params.add(std::move(spec));
}

Param make_skip(LayerMaker& maker, std::int64_t inner) {
  const Shape all{inner};
  return maker.params.add({maker.naming.of("mamba1_d", ""), all, all, Init::kOne, 0, false,
                           Split{Split::Kind::kColumns, {inner}}});
}

}  // namespace

SelectiveMamba::Short SelectiveMamba::make_short(LayerMaker& maker, const SelectiveShape& shape,
                                                 std::size_t which, std::int64_t epsilon) {
  const ShortNames& names = kShorts[which];
  const std::int64_t width = which == 0 ? shape.rank : shape.state;
  const std::int64_t first = which == 0 ? 0 : shape.rank + (which == 1 ? 0 : shape.state);
  Linear down(maker, names.down_part, names.down,
              {.in = shape.inner, .out = {width}, .cut = Split::Kind::kRows}, OperatorSet{});
  NormBlock norm(maker, {Norm::kRmsNorm, epsilon}, names.norm_part, names.norm, width, true);
  const Value rstd = maker.values.add({.name = std::string(names.down) + ".rstd",
                                       .shape = {maker.tokens()},
                                       .dtype = maker.kernels.statistics});
  return {std::move(down), norm, rstd, first, width};
}

SelectiveMamba::SelectiveMamba(LayerMaker& maker, const SelectiveShape& shape,
                               std::int64_t norm_epsilon)
    : b_(maker.b()),
      s_(maker.s()),
      channels_(shape.inner / maker.pieces()),
      low_width_(shape.low_width()),
      in_(maker, Part::kStateIn, "mamba1_in", {.in = maker.h(), .out = shape.in_widths()},
          OperatorSet{}),
      conv_(maker, "mamba1_conv", {.widths = {shape.inner}, .taps = shape.conv, .bias = true}),
      shorts_{make_short(maker, shape, 0, norm_epsilon), make_short(maker, shape, 1, norm_epsilon),
              make_short(maker, shape, 2, norm_epsilon)},
      step_up_(maker, Part::kStepUp, "mamba1_step",
               {.in = shape.rank, .out = {shape.inner}, .bias = true}, OperatorSet{}),
      a_log_(make_decays(maker, shape)),
      d_(make_skip(maker, shape.inner)),
      in_out_(channels_value(maker, "mamba1_in", shape.in_width())),
      convolved_(channels_value(maker, "mamba1_convolved", shape.inner)),
      low_(maker.values.add({.name = "mamba1_low",
                             .shape = {maker.tokens() * low_width_},
                             .dtype = maker.compute()})),
      short_(maker.values.add({.name = "mamba1_short",
                               .shape = {maker.tokens(), shape.rank},
                               .dtype = maker.compute()})),
      vectors_(maker.values.add({.name = "mamba1_vectors",
                                 .shape = {2, maker.b(), maker.s(), shape.state},
                                 .dtype = maker.compute()})),
      step_(channels_value(maker, "mamba1_step", shape.inner)),
      y_(channels_value(maker, "mamba1_scan", shape.inner)),
      gated_(channels_value(maker, "mamba1_gated", shape.inner)),
      out_(maker, Part::kStateOut, "state_out", "mamba1_out", shape.inner, false, OperatorSet{}) {}

View SelectiveMamba::of_short(View all, const Short& each, std::int64_t tokens) {
  all.offset = all.offset + size_of(all.dtype) * (each.first * tokens);
  all.shape = {tokens, each.width};
  return all;
}

View SelectiveMamba::one_of(View vectors, std::size_t which) const {
  const std::int64_t width = shorts_[which].width;
  if (which == 2) vectors.offset = vectors.offset + size_of(vectors.dtype) * (b_ * s_ * width);
  vectors.shape = {b_ * s_, width};
  return vectors;
}

View SelectiveMamba::normed(const LayerPass& to, std::size_t which) const {
  return one_of(which == 0 ? to[short_] : to[vectors_], which);
}

View SelectiveMamba::by_sequence(View of, std::int64_t width) const {
  of.shape = {b_, s_, width};
  return of;
}

void SelectiveMamba::forward(LayerPass& to, const View& x) const {
  if (!to.emits_all()) return;
  const View in = to[in_out_], convolved = to[convolved_], low = to[low_], y = to[y_];
  in_.forward(to, x, as_rows(in));
  conv_.forward(to, in, channels_, convolved);
  for (const Short& each : shorts_)
    each.down.forward(to, as_rows(convolved), of_short(low, each, b_ * s_));
  to.add_up(Part::kStepDown, low);
  for (std::size_t i = 0; i < shorts_.size(); ++i)
    shorts_[i].norm.forward(to, of_short(low, shorts_[i], b_ * s_), result_of(to, i));
  step_up_.forward(to, to[short_], as_rows(to[step_]));
  to.kernel(Part::kScan, KernelId::kSelectiveScanForward,
            {read(convolved), read(to[step_]), read(to[vectors_]), to.parameter(a_log_),
             to.parameter(d_), write(y)});
  to.kernel(Part::kGateNorm, KernelId::kSiluGateForward, {read(y), read(in), write(to[gated_])});
  out_.linear.forward(to, as_rows(to[gated_]), to[partial()]);
}

// The gradients of what is normalised.
View SelectiveMamba::vector_gradients(LayerPass& to) const {
  return to.scratch("d.vectors", to[vectors_].shape);
}
View SelectiveMamba::short_gradient(LayerPass& to) const {
  return to.scratch("d.short", to[short_].shape);
}

// [derived] backward: states of chunks of 2,048 tokens, with their decays, and sums of the
// gradients of B and C in 32 bit; on the CPU those of the tokens of one channel.
void SelectiveMamba::mix_backward(LayerPass& to, const View& dgated, const View& din,
                                  const View& dstep, const View& dconvolved) const {
  constexpr std::int64_t kTokens = 2048, kAlignment = 128;
  const std::int64_t state = shorts_[1].width, sums = 2 * b_ * s_ * state;
  const std::int64_t on_gpu = 2 * b_ * ceil_div(s_, kTokens) * channels_ * state + sums;
  const std::int64_t on_cpu = b_ * s_ * state + sums + b_ * channels_ * (state + 1);
  View scratch =
      to.scratch("scan.states", {(to.is_on_cpu() ? on_cpu : on_gpu) + kAlignment}, to.statistics());
  scratch.access = Access::kScratch;
  const View in = read(to[in_out_]), y = read(to[y_]), d = to.scratch("d.scan", y.shape);
  to.kernel(Part::kGateNorm, KernelId::kSiluGateBackward,
            {read(dgated), y, in, write(d), write(by_sequence(din, 2 * channels_))});
  to.kernel(
      Part::kScan, KernelId::kSelectiveScanBackward,
      {read(d), read(to[convolved_]), read(to[step_]), read(to[vectors_]), to.parameter(a_log_),
       to.parameter(d_), write(dconvolved), write(by_sequence(dstep, channels_)),
       write(vector_gradients(to)), to.gradient(a_log_), to.gradient(d_), scratch});
}

// Goes from the gradients of steps, B and C back to what is convolved.
void SelectiveMamba::low_backward(LayerPass& to, const View& dlow, const View& dstep,
                                  const View& dconvolved) const {
  const View dshort = short_gradient(to), dvectors = vector_gradients(to);
  step_up_.backward(to, to[short_], dstep, write(dshort));
  for (std::size_t i = 0; i < shorts_.size(); ++i) {
    const Short& each = shorts_[i];
    if (!to.emits_inputs()) each.norm.take_gradients(to);
    each.norm.backward(to, one_of(i == 0 ? dshort : dvectors, i), of_short(to[low_], each, b_ * s_),
                       result_of(to, i), write(of_short(dlow, each, b_ * s_)));
  }
  if (to.emits_inputs()) to.add_up(Part::kStepDown, dlow);
  for (const Short& each : shorts_)
    each.down.backward(to, as_rows(to[convolved_]), of_short(dlow, each, b_ * s_),
                       update(as_rows(dconvolved)));
}

void SelectiveMamba::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dgated = to.scratch("d.gated", to[gated_].shape);
  out_.linear.backward(to, as_rows(to[gated_]), dy, write(as_rows(dgated)));
  const View din = to.handed(Part::kStateIn, "d.in", rows_of(to[in_out_].shape), false);
  const View dstep = to.handed(Part::kStepUp, "d.step", rows_of(to[step_].shape), false);
  const View dlow = to.handed(Part::kStepDown, "d.low", to[low_].shape, false);
  const View dconvolved = to.scratch("d.convolved", to[convolved_].shape);
  if (to.emits_inputs()) {
    mix_backward(to, dgated, din, dstep, dconvolved);
  } else {
    to.take_gradient(Part::kScan, a_log_, true);
    to.take_gradient(Part::kScan, d_, false);
  }
  low_backward(to, dlow, dstep, dconvolved);
  if (to.emits_inputs())
    conv_.backward(to, dconvolved, to[in_out_], channels_, by_sequence(din, 2 * channels_));
  else
    conv_.take_gradients(to);
  in_.backward(to, x, din, to.add_tiles(dx));
}

}  // namespace zplan
