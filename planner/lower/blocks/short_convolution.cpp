#include "planner/lower/blocks/short_convolution.h"

#include <utility>

namespace zplan {
namespace {

Param make_taps(LayerMaker& maker, const ShortShape& shape) {
  const Shape weight{shape.conv, shape.width};
  ParamSpec spec{maker.naming.of("short_conv", ".weight"),
                 weight,
                 weight,
                 Init::kNormal,
                 maker.naming.std().usual,
                 true,
                 Split{Split::Kind::kColumns, {shape.width}}};
  spec.is_matrix = false;
  return maker.params.add(std::move(spec));
}

Value make_short_value(LayerMaker& maker, const char* name, std::int64_t width) {
  return maker.values.add({.name = name,
                           .shape = {maker.b(), maker.s(), width / maker.pieces()},
                           .dtype = maker.compute()});
}

}  // namespace

ShortConvolution::ShortConvolution(LayerMaker& maker, const ShortShape& shape)
    : in_(maker, Part::kStateIn, "short_in", {.in = maker.h(), .out = shape.in_widths()},
          OperatorSet{}),
      weight_(make_taps(maker, shape)),
      in_out_(make_short_value(maker, "short_in", shape.in_width())),
      mixed_(make_short_value(maker, "short_mixed", shape.width)),
      out_(maker, Part::kStateOut, "state_out", "short_out", shape.width, false, OperatorSet{}) {}

void ShortConvolution::forward(LayerPass& to, const View& x) const {
  if (!to.emits_all()) return;
  in_.forward(to, x, as_rows(to[in_out_]));
  to.kernel(Part::kConvolution, KernelId::kShortConvolutionForward,
            {read(to[in_out_]), to.parameter(weight_), write(to[mixed_])});
  out_.linear.forward(to, as_rows(to[mixed_]), to[partial()]);
}

void ShortConvolution::backward(LayerPass& to, const View& x, const View& dy,
                                const View& dx) const {
  const View dmixed = to.scratch("d.mixed", to[mixed_].shape);
  out_.linear.backward(to, as_rows(to[mixed_]), dy, write(as_rows(dmixed)));
  const View din = to.handed(Part::kStateIn, "d.in", rows_of(to[in_out_].shape), false);
  if (to.emits_inputs()) {
    View by_sequence = din;
    by_sequence.shape = to[in_out_].shape;
    const View weight = to.parameter(weight_);
    to.kernel(Part::kConvolution, KernelId::kShortConvolutionBackward,
              {read(dmixed), read(to[in_out_]), weight, write(by_sequence), to.gradient(weight_)});
  } else {
    to.take_gradient(Part::kConvolution, weight_, false);
  }
  in_.backward(to, x, din, to.add_tiles(dx));
}

}  // namespace zplan
