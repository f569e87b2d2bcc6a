#include "planner/lower/blocks/mamba.h"

#include <algorithm>

namespace zplan {
namespace {

std::vector<ColumnFactor> factors_of(const MambaShape& shape, const PartFactors& f,
                                     std::int64_t ranks) {
  const std::vector<std::int64_t> widths = shape.in_widths();
  const std::int64_t factors[] = {f.mamba_z, f.mamba_x, f.mamba_b, f.mamba_c, f.mamba_dt};
  std::vector<ColumnFactor> all;
  for (std::size_t i = 0; i < widths.size(); ++i) all.push_back({widths[i] / ranks, factors[i]});
  return all;
}

StateShape state_shape(const MambaShape& shape, const PartFactors& factors, std::int64_t ranks,
                       std::int64_t norm_epsilon) {
  return {.prefix = "mamba_",
          .columns = shape.in_widths(),
          .heads = shape.heads,
          .vectors = {{"dt_bias"}, {"a_log"}, {"d", Init::kOne}},
          .inner = shape.inner(),
          .convolved = shape.conv_width(),
          .taps = shape.conv,
          .conv_bias = true,
          .norms = shape.norm ? shape.groups : 0,
          .epsilon = norm_epsilon,
          .factors = factors_of(shape, factors, ranks),
          .out_factor = factors.mamba_out};
}

MambaShape of_rank(MambaShape shape, std::int64_t ranks) {
  shape.heads /= ranks;
  shape.groups /= ranks;
  return shape;
}

}  // namespace

Mamba::Mamba(LayerMaker& maker, const MambaShape& shape, const PartFactors& factors,
             std::int64_t norm_epsilon)
    : StateMixer(maker, state_shape(shape, factors, maker.pieces(), norm_epsilon)),
      shape_(of_rank(shape, maker.pieces())) {}

// [derived] of the kernels of [Mamba]: steps and their sums of each head and token, states of
// chunks, C B^T of chunks; backward has gradients of all, and of B and C.
View Mamba::states(LayerPass& to, const View& x, bool backward) const {
  const std::int64_t b = x.shape[0], s = x.shape[1], q = std::min(shape_.chunk, s);
  const std::int64_t chunks = ceil_div(s, q);
  const std::int64_t steps = 2 * b * s * shape_.heads;
  const std::int64_t of_chunks =
      b * chunks * (shape_.inner() * shape_.state + shape_.groups * q * q);
  const std::int64_t shared = backward ? 2 * b * s * shape_.groups * shape_.state : 0;
  constexpr std::int64_t kAlignment = 128;  // elements that pieces of it may be apart
  return scan_scratch(to, (backward ? 2 : 1) * (steps + of_chunks) + shared + kAlignment);
}

void Mamba::scan(LayerPass& to, const View& x, const View& in, const View& y) const {
  to.kernel(Part::kScan, KernelId::kMambaScanForward,
            {x, in, to.parameter(dt_bias()), to.parameter(a_log()), to.parameter(d()), y,
             states(to, x, false)},
            attributes());
}

void Mamba::scan_backward(LayerPass& to, const View& dy, const View& x, const View& in,
                          const View& dx, const View& din) const {
  to.kernel(Part::kScan, KernelId::kMambaScanBackward,
            {dy, x, in, to.parameter(dt_bias()), to.parameter(a_log()), to.parameter(d()), dx, din,
             to.gradient(dt_bias()), to.gradient(a_log()), to.gradient(d()), states(to, x, true)},
            attributes());
}

}  // namespace zplan
