#include "exec/cpu/kernels/head_norm.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/norm.h"

namespace zplan::exec::cpu {
namespace {

// Before a head of x [b, s, n, d]: of so many rows of m heads each.
std::int64_t head_at(const HeadNormShape& s, std::int64_t row) {
  return (row / s.normed * s.heads + s.first + row % s.normed) * s.head_dim;
}

template <typename T>
void forward_row(const HeadNormShape& s, const HeadNormForward<T>& x, std::int64_t row) {
  using C = Compute<T>;
  const std::int64_t d = s.head_dim;
  T* out = x.x + head_at(s, row);
  T* in = x.kept + row * d;
  std::copy_n(out, d, in);
  C squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t j = 0; j < d; ++j) squares += static_cast<C>(in[j]) * static_cast<C>(in[j]);
  const C rstd =
      static_cast<C>(1) / std::sqrt(squares / static_cast<C>(d) + static_cast<C>(x.epsilon));
#pragma omp simd
  for (std::int64_t j = 0; j < d; ++j)
    out[j] = static_cast<T>(static_cast<C>(in[j]) * rstd * static_cast<C>(x.gain[j]));
  x.rstd[row] = rstd;
}

template <typename T, typename G>
void backward_row(const HeadNormShape& s, const HeadNormBackward<T, G>& x, std::int64_t row) {
  using C = Compute<T>;
  const std::int64_t d = s.head_dim;
  const T* in = x.x + row * d;
  T* dx = x.dx + head_at(s, row);
  const C rstd = x.rstd[row];
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < d; ++j)
    sum += static_cast<C>(dx[j]) * static_cast<C>(x.gain[j]) * (static_cast<C>(in[j]) * rstd);
  const C mean = sum / static_cast<C>(d);
#pragma omp simd
  for (std::int64_t j = 0; j < d; ++j) {
    const C n = static_cast<C>(in[j]) * rstd;
    const C g = static_cast<C>(dx[j]) * static_cast<C>(x.gain[j]);
    dx[j] = static_cast<T>(rstd * (g - n * mean));
  }
}

// dgain of columns [begin, end), at most kColumnBlock of them.
template <typename T, typename G>
void backward_columns(const HeadNormShape& s, const HeadNormBackward<T, G>& x, std::int64_t begin,
                      std::int64_t end) {
  using C = Compute<T>;
  C sums[kColumnBlock] = {};
  const std::int64_t width = end - begin;
  for (std::int64_t row = 0; row < s.rows(); ++row) {
    const T* dy = x.dx + head_at(s, row) + begin;
    const T* in = x.x + row * s.head_dim + begin;
    const C rstd = x.rstd[row];
    for (std::int64_t j = 0; j < width; ++j)
      sums[j] += static_cast<C>(dy[j]) * (static_cast<C>(in[j]) * rstd);
  }
  for (std::int64_t j = 0; j < width; ++j) {
    G& dgain = x.dgain[begin + j];
    dgain = static_cast<G>(x.accumulate_dgain ? static_cast<C>(dgain) + sums[j] : sums[j]);
  }
}

}  // namespace

template <typename T>
void head_norm_forward(const HeadNormShape& s, const HeadNormForward<T>& x) {
  for_rows(s.rows(), s.head_dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) forward_row(s, x, row);
  });
}

// The sums read the gradients that the rows then overwrite.
template <typename T, typename G>
void head_norm_backward(const HeadNormShape& s, const HeadNormBackward<T, G>& x) {
  for_columns(s.rows(), s.head_dim,
              [&](std::int64_t begin, std::int64_t end) { backward_columns(s, x, begin, end); });
  for_rows(s.rows(), s.head_dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) backward_row(s, x, row);
  });
}

#define ZPLAN_INSTANTIATE(T) \
  template void head_norm_forward<T>(const HeadNormShape&, const HeadNormForward<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void head_norm_backward<T, G>(const HeadNormShape&, const HeadNormBackward<T, G>&);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
