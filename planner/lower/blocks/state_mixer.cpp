#include "planner/lower/blocks/state_mixer.h"

#include <numeric>
#include <string>
#include <utility>

#include "planner/program/kernels/attribute_values.h"

namespace zplan {
namespace {

std::string tensor_of(const StateShape& shape, const char* name) {
  return std::string(shape.prefix) + name;
}

// The parts behind the gate are convolved, until they have all columns of the convolution.
ConvolutionKind convolution_of(const StateShape& shape) {
  ConvolutionKind kind{.widths = {}, .taps = shape.taps, .bias = shape.conv_bias};
  std::int64_t sum = 0;
  for (std::size_t i = 1; sum < shape.convolved; ++i) {
    kind.widths.push_back(shape.columns[i]);
    sum += shape.columns[i];
  }
  return kind;
}

std::vector<Param> make_vectors(LayerMaker& maker, const StateShape& shape) {
  const Shape width{shape.heads};
  std::vector<Param> all;
  for (const HeadVector& one : shape.vectors)
    all.push_back(
        maker.params.add({maker.naming.of(tensor_of(shape, one.tensor), ""), width, width, one.init,
                          0, false, Split{Split::Kind::kColumns, {shape.heads}}}));
  return all;
}

Param make_gain(LayerMaker& maker, const StateShape& shape) {
  if (shape.norms == 0) return {};
  const std::string tensor = tensor_of(shape, "norm");
  if (shape.gate_last)
    return maker.vector(tensor, ".weight", shape.inner / shape.norms, Init::kOne, true);
  const Shape width{shape.inner};
  return maker.params.add({maker.naming.of(tensor, ".weight"), width, width, Init::kOne, 0, false,
                           Split{Split::Kind::kColumns, {shape.inner}}});
}

Value make_value(LayerMaker& maker, const StateShape& shape, const char* name, std::int64_t width,
                 Life life = Life::kBackward) {
  return maker.values.add({.name = tensor_of(shape, name),
                           .shape = {maker.b(), maker.s(), width / maker.pieces()},
                           .dtype = maker.compute(),
                           .life = life});
}

Value make_rstd(LayerMaker& maker, const StateShape& shape) {
  if (shape.norms == 0) return {};
  return maker.values.add({.name = tensor_of(shape, "rstd"),
                           .shape = {maker.b(), maker.s(), shape.norms / maker.pieces()},
                           .dtype = maker.kernels.statistics});
}

Linear make_in(LayerMaker& maker, const StateShape& shape) {
  return {maker,
          Part::kStateIn,
          tensor_of(shape, "in"),
          {.in = maker.h(), .out = shape.columns},
          OperatorSet{}};
}

std::int64_t width_of(const StateShape& shape) {
  return std::accumulate(shape.columns.begin(), shape.columns.end(), std::int64_t{0});
}

}  // namespace

StateMixer::StateMixer(LayerMaker& maker, const StateShape& shape)
    : epsilon_(epsilon_attribute(shape.epsilon)),
      gate_last_(shape.gate_last),
      keeps_convolved_(shape.keeps_convolved),
      gate_width_(shape.inner / maker.pieces()),
      factors_(shape.factors),
      out_factor_(shape.out_factor),
      in_(make_in(maker, shape)),
      conv_(maker, tensor_of(shape, "conv"), convolution_of(shape)),
      vectors_(make_vectors(maker, shape)),
      gain_(make_gain(maker, shape)),
      in_out_(make_value(maker, shape, "in", width_of(shape))),
      convolved_(make_value(maker, shape, "convolved", shape.convolved,
                            keeps_convolved_ ? Life::kBackward : Life::kForward)),
      y_(make_value(maker, shape, "scan", shape.inner)),
      normed_(make_value(maker, shape, "gated", shape.inner)),
      rstd_(make_rstd(maker, shape)),
      out_(maker, Part::kStateOut, "state_out", tensor_of(shape, "out").c_str(), shape.inner, false,
           OperatorSet{}) {}

View StateMixer::scan_scratch(LayerPass& to, std::int64_t elements) {
  View scratch = to.scratch("scan.states", {elements}, to.statistics());
  scratch.access = Access::kScratch;
  return scratch;
}

void StateMixer::gate(LayerPass& to) const {
  const View y = read(to[y_]), in = read(to[in_out_]), normed = to[normed_];
  if (gain_)
    to.kernel(Part::kGateNorm, KernelId::kGatedNormForward,
              {y, in, to.parameter(gain_), write(normed), write(to[rstd_])},
              {gate_last_ ? 1 : 0, epsilon_});
  else
    to.kernel(Part::kGateNorm, KernelId::kSiluGateForward, {y, in, write(normed)});
  scale_result(to, normed);
}

void StateMixer::gate_backward(LayerPass& to, const View& dnormed, const View& d,
                               const View& din) const {
  const View y = read(to[y_]), in = read(to[in_out_]);
  if (gain_)
    to.kernel(Part::kGateNorm, KernelId::kGatedNormBackward,
              {read(dnormed), y, in, to.parameter(gain_), read(to[rstd_]), write(d), write(din),
               to.gradient(gain_)},
              {gate_last_ ? 1 : 0});
  else
    to.kernel(Part::kGateNorm, KernelId::kSiluGateBackward,
              {read(dnormed), y, in, write(d), write(din)});
}

// Multiplies what the last product reads, or its gradient.
void StateMixer::scale_result(LayerPass& to, const View& of) const {
  if (out_factor_ == PartFactors::kOne) return;
  to.kernel(Part::kGateNorm, Action::kScaleUpdate, KernelId::kScale, {update(of)},
            {out_factor_, PartFactors::kOne});
}

void StateMixer::forward(LayerPass& to, const View& x) const {
  if (!to.emits_all()) return;
  const View in = to[in_out_], convolved = to[convolved_], y = to[y_];
  in_.forward(to, x, as_rows(in));
  factors_.multiply(to, Part::kStateIn, in);
  conv_.forward(to, in, gate_width_, convolved);
  scan(to, read(convolved), read(in), write(y));
  gate(to);
  out_.linear.forward(to, as_rows(to[normed_]), to[partial()]);
}

// Computes the gradient of the first product's result from that of the last product's input.
View StateMixer::mix_backward(LayerPass& to, const View& dnormed) const {
  const View in = read(to[in_out_]);
  const View din =
      to.handed(Part::kStateIn, "d.in", {in.shape[0] * in.shape[1], in.shape[2]}, false);
  if (!to.emits_inputs()) return din;
  View all = din;
  all.shape = in.shape;
  const View d = to.scratch("d.scan", to[y_].shape);
  scale_result(to, dnormed);
  gate_backward(to, dnormed, d, all);
  View convolved = keeps_convolved_ ? to[convolved_] : View{};
  if (!keeps_convolved_) {
    const Shape shape{in.shape[0], in.shape[1], to.shape_of(conv_.weight())[1]};
    convolved = to.scratch("convolved", shape);
    conv_.forward(to, in, gate_width_, convolved);
  }
  const View dconvolved = to.scratch("d.convolved", convolved.shape);
  scan_backward(to, read(d), read(convolved), in, write(dconvolved), update(all));
  conv_.backward(to, dconvolved, in, gate_width_, all);
  factors_.multiply(to, Part::kStateIn, din);
  return din;
}

// All gradients of a part come from one kernel, so they belong to the first part of a backward.
void StateMixer::take_gradients(LayerPass& to) const {
  if (gain_) to.take_gradient(Part::kGateNorm, gain_, false);
  conv_.take_gradients(to);
  // Each of these has a role of its own.
  constexpr std::pair<Part, bool> kRoles[] = {
      {Part::kScan, true}, {Part::kScan, false}, {Part::kGateNorm, true}};
  for (std::size_t i = 0; i < vectors_.size(); ++i)
    to.take_gradient(kRoles[i].first, vectors_[i], kRoles[i].second);
}

void StateMixer::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dnormed = to.scratch("d.gated", to[normed_].shape);
  out_.linear.backward(to, as_rows(to[normed_]), dy, write(as_rows(dnormed)));
  const View din = mix_backward(to, dnormed);
  if (!to.emits_inputs()) take_gradients(to);
  in_.backward(to, x, din, to.add_tiles(dx));
}

}  // namespace zplan
