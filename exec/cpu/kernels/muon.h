// Muon [Jordan24] with the step sizes of [Liu25]: momentum, a matrix made orthogonal, the step. In
// double where the states are, else in float; PyTorch's [PyTorch] has bf16 in the second.
#pragma once

#include "exec/cpu/kernels/optimizer.h"

namespace zplan::exec::cpu {

struct MomentumShard {
  Elements m;       // [n], updated
  Elements grad;    // [n], only read
  Elements update;  // [n], overwritten, f64 or f32
  std::int64_t n, flat_offset;
  RoundingDraws draws{};
};

// g = clip grad; m = beta1 m + (1 - beta1) g; update = beta1 m + (1 - beta1) g, Nesterov's. A step
// that is skipped leaves m and writes zeros. About 6 n flop.
void muon_momentum(const AdamwScalars& scalars, const MomentumShard& x);

// x /= max(|x|, 1e-7); five times, with g = x x^T or, of more rows than columns, x^T x on the other
// side: x = 3.4445 x + (-4.775 g + 2.0315 g g) x. Then x *= 0.2 sqrt(max(rows, columns)).
template <typename C>
void orthogonalise(const Orthogonalise<C>& x);

// p *= 1 - lr wd (decaying elements); p -= lr update, which stands in `grad`.
void muon(const AdamwScalars& scalars, const SgdShard& x);

}  // namespace zplan::exec::cpu
