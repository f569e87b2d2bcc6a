#include "exec/cpu/kernels/model_ends.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
void add_row(T* x, const T* row, std::int64_t n) {
  using C = Compute<T>;
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j)
    x[j] = static_cast<T>(static_cast<C>(x[j]) + static_cast<C>(row[j]));
}

}  // namespace

template <typename T>
void segment_forward(const SegmentShape& s, T* x, const T* rows) {
  for_rows(s.batch * s.sequence, s.hidden, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token)
      add_row(x + token * s.hidden, rows + s.of(token % s.sequence) * s.hidden, s.hidden);
  });
}

template <typename T, typename G>
void segment_backward(const SegmentShape& s, G* drows, const T* dx, bool accumulate) {
  using C = Compute<T>;
  if (!accumulate) std::fill_n(drows, s.segments * s.hidden, static_cast<G>(0));
  for_columns(s.batch * s.sequence, s.hidden, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t j = first; j < last; ++j)
      for (std::int64_t i = 0, end = 0; i < s.sequence; i = end) {
        const std::int64_t segment = s.of(i);
        end = std::min(s.sequence, (segment + 1) * s.length - s.begin);
        C sum = 0;
        for (std::int64_t b = 0; b < s.batch; ++b)
          for (std::int64_t t = i; t < end; ++t)
            sum += static_cast<C>(dx[(b * s.sequence + t) * s.hidden + j]);
        G& target = drows[segment * s.hidden + j];
        target = static_cast<G>(static_cast<C>(target) + sum);
      }
  });
}

template <typename T>
void add_bias(std::int64_t rows, std::int64_t columns, T* x, const T* bias) {
  for_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) add_row(x + row * columns, bias, columns);
  });
}

#define ZPLAN_INSTANTIATE(T)                                           \
  template void segment_forward<T>(const SegmentShape&, T*, const T*); \
  template void add_bias<T>(std::int64_t, std::int64_t, T*, const T*);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void segment_backward<T, G>(const SegmentShape&, G*, const T*, bool);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
