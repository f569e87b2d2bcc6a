#include "planner/lower/blocks/kimi_delta.h"

#include <algorithm>

#include "planner/program/kernels/attribute_values.h"

namespace zplan {
namespace {

constexpr LowProduct::Names kDecay{Part::kDecayDown, Part::kDecayUp, "kda_decay_down",
                                   "kda_decay_up"};
constexpr LowProduct::Names kGate{Part::kGateDown, Part::kGateUp, "kda_gate_down", "kda_gate_up"};

KimiShape rank_shape(KimiShape shape, std::int64_t ranks) {
  shape.heads /= ranks;
  return shape;
}

Linear make_low(LayerMaker& maker, Part part, const char* tensor, std::int64_t low) {
  return {maker,
          part,
          tensor,
          {.in = maker.h(), .out = {low}, .cut = Split::Kind::kNone},
          OperatorSet{}};
}

// It begins an operator: what ranks have whole is in the one before.
Linear make_in(LayerMaker& maker, const KimiShape& shape) {
  maker.params.begin("state_in", Part::kStateIn);
  return {
      maker, Part::kStateIn, "kda_in", {.in = maker.h(), .out = shape.in_widths()}, OperatorSet{}};
}

Param make_vector(LayerMaker& maker, const char* tensor, std::int64_t width) {
  const Shape shape{width};
  return maker.params.add({maker.naming.of(tensor, ""), shape, shape, Init::kZero, 0, false,
                           Split{Split::Kind::kColumns, {width}}});
}

Value make_columns(LayerMaker& maker, const std::string& name, std::int64_t width) {
  return maker.values.add({.name = name,
                           .shape = {maker.b(), maker.s(), width / maker.pieces()},
                           .dtype = maker.compute()});
}

}  // namespace

LowProduct::LowProduct(LayerMaker& maker, const Names& names, std::int64_t low, std::int64_t width)
    : low_width_(low),
      dlow_(std::string("d.") + names.down),
      dout_(std::string("d.") + names.up),
      down_(make_low(maker, names.down_part, names.down, low)),
      up_(maker, names.up_part, names.up, {.in = low, .out = {width}}, OperatorSet{}),
      low_(maker.values.add(
          {.name = names.down, .shape = {maker.tokens(), low}, .dtype = maker.compute()})),
      out_(make_columns(maker, names.up, width)) {}

void LowProduct::forward(LayerPass& to, const View& x) const {
  down_.forward(to, x, to[low_]);
  up_.forward(to, to[low_], as_rows(to[out_]));
}

View LowProduct::gradient(LayerPass& to) const {
  return to.handed(up_.part(), dout_.c_str(), rows_of(to[out_].shape), false);
}

void LowProduct::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dlow = to.handed(down_.part(), dlow_.c_str(), {dy.shape[0], low_width_}, false);
  up_.backward(to, to[low_], dy, write(dlow));
  down_.backward(to, x, dlow, update(dx));
}

KimiDelta::KimiDelta(LayerMaker& maker, const KimiShape& shape, std::int64_t norm_epsilon)
    : epsilon_(epsilon_attribute(norm_epsilon)),
      shape_(rank_shape(shape, maker.pieces())),
      decay_(maker, kDecay, shape.size, shape.width()),
      gate_(maker, kGate, shape.size, shape.width()),
      in_(make_in(maker, shape)),
      conv_(maker, "kda_conv",
            {.widths = {shape.width(), shape.width(), shape.width()}, .taps = shape.conv}),
      dt_bias_(make_vector(maker, "kda_dt_bias", shape.width())),
      a_log_(make_vector(maker, "kda_a_log", shape.heads)),
      gain_(maker.vector("kda_norm", ".weight", shape.size, Init::kOne, true)),
      in_out_(make_columns(maker, "kda_in", shape.in_width())),
      convolved_(make_columns(maker, "kda_convolved", shape.conv_width())),
      y_(make_columns(maker, "kda_scan", shape.width())),
      normed_(make_columns(maker, "kda_gated", shape.width())),
      rstd_(maker.values.add({.name = "kda_rstd",
                              .shape = {maker.b(), maker.s(), shape_.heads},
                              .dtype = maker.kernels.statistics})),
      out_(maker, Part::kStateOut, "state_out", "kda_out", shape.width(), false, OperatorSet{}) {}

// [derived] as those of a gated delta net (gated_delta.cpp), with the sums of decays within chunks.
View KimiDelta::states(LayerPass& to, bool backward) const {
  const Shape& x = to[y_].shape;
  const std::int64_t b = x[0], s = x[1], d = shape_.size, q = std::min(shape_.chunk, s);
  const std::int64_t heads = b * shape_.heads, of_states = ceil_div(s, q) * d * d;
  const std::int64_t of_chunks = heads * (backward ? 2 : 1) * (of_states + s * (q + 4 * d));
  const std::int64_t on_cpu = heads * (of_states + (q + 2) * d * d + d + 1);
  constexpr std::int64_t kAlignment = 128;  // elements that pieces of it may be apart
  const std::int64_t elements = std::max(of_chunks, to.is_on_cpu() && backward ? on_cpu : 0);
  View scratch = to.scratch("scan.states", {elements + kAlignment}, to.statistics());
  scratch.access = Access::kScratch;
  return scratch;
}

void KimiDelta::forward(LayerPass& to, const View& x) const {
  if (!to.emits_all()) return;
  const View in = to[in_out_], convolved = to[convolved_], y = to[y_];
  decay_.forward(to, x);
  gate_.forward(to, x);
  in_.forward(to, x, as_rows(in));
  conv_.forward(to, in, 0, convolved);
  to.kernel(Part::kScan, KernelId::kKimiScanForward,
            {read(convolved), read(in), read(decay_.result(to)), to.parameter(dt_bias_),
             to.parameter(a_log_), write(y), states(to, false)},
            {shape_.chunk});
  to.kernel(
      Part::kGateNorm, KernelId::kGatedNormForward,
      {read(y), read(gate_.result(to)), to.parameter(gain_), write(to[normed_]), write(to[rstd_])},
      {1, epsilon_, 1});
  out_.linear.forward(to, as_rows(to[normed_]), to[partial()]);
}

// Computes the gradients of what the first products give from that of the last product's input.
void KimiDelta::mix_backward(LayerPass& to, const View& dnormed, const View& din,
                             const View& ddecay, const View& dgate) const {
  const auto by_sequence = [](View of, const View& like) {
    of.shape = like.shape;
    return of;
  };
  const View in = read(to[in_out_]), y = read(to[y_]), gate = gate_.result(to);
  const View convolved = read(to[convolved_]), decay = decay_.result(to);
  const View d = to.scratch("d.scan", y.shape), all = by_sequence(din, in);
  to.kernel(Part::kGateNorm, KernelId::kGatedNormBackward,
            {read(dnormed), y, read(gate), to.parameter(gain_), read(to[rstd_]), write(d),
             write(by_sequence(dgate, gate)), to.gradient(gain_)},
            {1, 1});
  const View dconvolved = to.scratch("d.convolved", convolved.shape);
  to.kernel(Part::kScan, KernelId::kKimiScanBackward,
            {read(d), convolved, in, read(decay), to.parameter(dt_bias_), to.parameter(a_log_),
             write(dconvolved), write(all), write(by_sequence(ddecay, decay)),
             to.gradient(dt_bias_), to.gradient(a_log_), states(to, true)},
            {shape_.chunk});
  conv_.backward(to, dconvolved, in, 0, all);
}

// All gradients of a part come from one kernel, so they belong to the first part of a backward.
void KimiDelta::take_gradients(LayerPass& to) const {
  to.take_gradient(Part::kGateNorm, gain_, false);
  conv_.take_gradients(to);
  to.take_gradient(Part::kScan, dt_bias_, true);
  to.take_gradient(Part::kScan, a_log_, false);
}

void KimiDelta::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dnormed = to.scratch("d.gated", to[normed_].shape);
  out_.linear.backward(to, as_rows(to[normed_]), dy, write(as_rows(dnormed)));
  const View din = to.handed(Part::kStateIn, "d.in", rows_of(to[in_out_].shape), false);
  const View ddecay = decay_.gradient(to), dgate = gate_.gradient(to);
  if (to.emits_inputs())
    mix_backward(to, dnormed, din, ddecay, dgate);
  else
    take_gradients(to);
  in_.backward(to, x, din, to.add_tiles(dx));
  // Decays come last: they close the gradients of a unit that has them and the gate.
  gate_.backward(to, x, dgate, dx);
  decay_.backward(to, x, ddecay, dx);
}

}  // namespace zplan
