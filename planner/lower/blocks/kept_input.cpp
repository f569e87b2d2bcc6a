#include "planner/lower/blocks/kept_input.h"

namespace zplan {

KeptInput::KeptInput(LayerMaker& maker, Part part, const ValueSpec& input)
    : part_(part),
      codes_(maker.values.add({.name = input.name + ".codes",
                               .shape = codes_of(maker.kernels, input.shape),
                               .dtype = DType::kU8,
                               .of = input.of,
                               .tiled = input.tiled,
                               .in_backward = input.in_backward})),
      shape_(input.shape),
      dtype_(input.dtype),
      scratch_(input.name + ".decoded") {}

void KeptInput::keep(LayerPass& to, const View& x) const {
  if (codes_) to.quantize(part_, x, to[codes_]);
}

View KeptInput::decoded(LayerPass& to, const View& codes) const {
  const Shape all{codes.shape[0], shape_[1]};  // of as many tokens as were gathered
  return to.dequantized(part_, codes, scratch_, shape_.rank == 2 ? all : shape_, dtype_);
}

View KeptInput::read(LayerPass& to, const View& x, bool is_read) const {
  if (!codes_) return x;
  return is_read ? decoded(to, to[codes_]) : View{};
}

View KeptInput::all_given(LayerPass& to, Part part, const View& x, const char* name) const {
  if (!codes_ || !to.gathers_tokens()) return to.gathered(part, x, name);
  return decoded(to, to.gathered(part, to[codes_], name));
}

View KeptInput::all_kept(LayerPass& to, Part part, const View& x, const char* name) const {
  return codes_ ? decoded(to, to.gathered(part, to[codes_], name)) : to.gathered(part, x, name);
}

Value add_input(LayerMaker& maker, Part part, ValueSpec spec, KeptInput& kept) {
  const bool codes = maker.plan.low_precision.keeps_codes;
  if (codes) spec.life = Life::kForward;
  const Value value = maker.values.add(spec);
  if (codes) kept = KeptInput(maker, part, spec);
  return value;
}

}  // namespace zplan
