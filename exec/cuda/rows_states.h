// Rows of the dispatch table: gradients, optimizer states and conversions between types. Internal
// to exec/cuda.
#pragma once

#include <array>

#include "exec/cuda/call_support.h"
#include "exec/cuda/kernels/adamw.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/gradient_norm.h"
#include "exec/cuda/kernels/sgd.h"
#include "exec/kernels/read_states.h"

namespace zplan::exec::cuda {

template <typename T>
constexpr auto state_rows() {
  using K = KernelId;
  using C = Compute<T>;
  using H = StoredHalves;
  return std::to_array<DispatchEntry>({
      row(K::kAccumulate, read_two_states<C, H>,
          [](auto& lane, auto... x) { accumulate(lane.stream, x...); }),
      row(K::kCast, read_two_states<C, H>, [](auto& lane, auto... x) { cast(lane.stream, x...); }),
      row(K::kFillZero, read_fill_zero,
          [](auto& lane, auto... x) { fill_zero(lane.stream, x...); }),
      row(K::kSumSquares, read_sum_squares<C, H>,
          [](auto& lane, auto... x) { sum_squares(lane.stream, x..., lane.partials); }),
      row(K::kClipCoefficient, read_clip_coefficient,
          [](auto& lane, auto... x) { clip_coefficient(lane.stream, x...); }),
      row(K::kAdamW, read_adamw, [](auto& lane, const Adamw& x) { adamw(lane.stream, x); }),
      row(K::kSgd, read_sgd<1>, [](auto& lane, const Sgd& x) { sgd(lane.stream, x); }),
      row(K::kSgdMomentum, read_sgd<2>, [](auto& lane, const Sgd& x) { sgd(lane.stream, x); }),
  });
}

}  // namespace zplan::exec::cuda
