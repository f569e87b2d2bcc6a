#include "planner/lower/blocks/gated_delta.h"

#include <algorithm>

namespace zplan {
namespace {

StateShape state_shape_of(const DeltaShape& shape, std::int64_t norm_epsilon) {
  return {.prefix = "delta_",
          .columns = shape.in_widths(),
          .heads = shape.value_heads,
          .vectors = {{"dt_bias"}, {"a_log"}},
          .inner = shape.values(),
          .convolved = shape.conv_width(),
          .taps = shape.conv,
          .keeps_convolved = true,
          .norms = shape.value_heads,
          .gate_last = true,
          .epsilon = norm_epsilon};
}

DeltaShape shape_of_rank(DeltaShape shape, std::int64_t ranks) {
  shape.key_heads /= ranks;
  shape.value_heads /= ranks;
  return shape;
}

}  // namespace

GatedDelta::GatedDelta(LayerMaker& maker, const DeltaShape& shape, std::int64_t norm_epsilon)
    : StateMixer(maker, state_shape_of(shape, norm_epsilon)),
      shape_(shape_of_rank(shape, maker.pieces())) {}

// [derived] of the chunked algorithm: the states of chunks and, of each head and token, the
// triangle of a chunk and what it makes of key and value; backward has gradients of all. On the CPU
// backward has the states of each token of a chunk, and the gradients of queries and keys.
View GatedDelta::states(LayerPass& to, const View& x, bool backward) const {
  const std::int64_t b = x.shape[0], s = x.shape[1], q = std::min(shape_.chunk, s);
  const std::int64_t state = shape_.key_size * shape_.value_size, heads = b * shape_.value_heads;
  const std::int64_t of_tokens = q + shape_.key_size + 2 * shape_.value_size;
  const std::int64_t of_states = ceil_div(s, q) * state;
  const std::int64_t of_chunks = heads * (backward ? 2 : 1) * (of_states + s * of_tokens);
  const std::int64_t on_cpu =
      b * shape_.key_heads * (of_states + (q + 2) * state + 2 * s * shape_.key_size) + 2 * heads;
  constexpr std::int64_t kAlignment = 128;  // elements that pieces of it may be apart
  return scan_scratch(to,
                      std::max(of_chunks, to.is_on_cpu() && backward ? on_cpu : 0) + kAlignment);
}

void GatedDelta::scan(LayerPass& to, const View& x, const View& in, const View& y) const {
  to.kernel(Part::kScan, KernelId::kDeltaScanForward,
            {x, in, to.parameter(dt_bias()), to.parameter(a_log()), y, states(to, x, false)},
            attributes());
}

void GatedDelta::scan_backward(LayerPass& to, const View& dy, const View& x, const View& in,
                               const View& dx, const View& din) const {
  to.kernel(Part::kScan, KernelId::kDeltaScanBackward,
            {dy, x, in, to.parameter(dt_bias()), to.parameter(a_log()), dx, din,
             to.gradient(dt_bias()), to.gradient(a_log()), states(to, x, true)},
            attributes());
}

}  // namespace zplan
