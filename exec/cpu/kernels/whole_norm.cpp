#include "exec/cpu/kernels/whole_norm.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

// Elements of a token in x [b, s, n, d] before its first head that is normalised.
std::int64_t token_at(const HeadNormShape& s, std::int64_t token) {
  return (token * s.heads + s.first) * s.head_dim;
}
// Elements of a token that are normalised.
std::int64_t width_of(const HeadNormShape& s) { return s.normed * s.head_dim; }

template <typename C>
C rstd_of(C sum, std::int64_t width, double epsilon) {
  return static_cast<C>(1) / std::sqrt(sum / static_cast<C>(width) + static_cast<C>(epsilon));
}

// Calls body(token) with each.
template <typename Body>
void for_normed_tokens(const HeadNormShape& s, const Body& body) {
  for_rows(s.tokens, width_of(s), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) body(token);
  });
}

// dgain of columns [begin, end), at most kColumnBlock of them.
template <typename T, typename G>
void gain_columns(const HeadNormShape& s, const WholeNormBackward<T, G>& x, std::int64_t begin,
                  std::int64_t end) {
  using C = Compute<T>;
  C sums[kColumnBlock] = {};
  const std::int64_t width = end - begin;
  for (std::int64_t token = 0; token < s.tokens; ++token) {
    const T* dy = x.dx + token_at(s, token) + begin;
    const T* in = x.x + token * width_of(s) + begin;
    const C rstd = rstd_of(x.squares[token], x.width, x.epsilon);
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
void whole_norm_squares(const HeadNormShape& s, const WholeNormSquares<T>& x) {
  using C = Compute<T>;
  const std::int64_t width = width_of(s);
  for_normed_tokens(s, [&](std::int64_t token) {
    const T* in = x.x + token_at(s, token);
    std::copy_n(in, width, x.kept + token * width);
    C sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < width; ++j) sum += static_cast<C>(in[j]) * static_cast<C>(in[j]);
    x.sums[token] = sum;
  });
}

template <typename T>
void whole_norm_forward(const HeadNormShape& s, const WholeNormForward<T>& x) {
  using C = Compute<T>;
  const std::int64_t width = width_of(s);
  for_normed_tokens(s, [&](std::int64_t token) {
    T* out = x.x + token_at(s, token);
    const T* in = x.kept + token * width;
    const C rstd = rstd_of(x.sums[token], x.width, x.epsilon);
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j)
      out[j] = static_cast<T>(static_cast<C>(in[j]) * rstd * static_cast<C>(x.gain[j]));
  });
}

template <typename T>
void whole_norm_products(const HeadNormShape& s, const WholeNormProducts<T>& x) {
  using C = Compute<T>;
  const std::int64_t width = width_of(s);
  for_normed_tokens(s, [&](std::int64_t token) {
    const T* dy = x.dx + token_at(s, token);
    const T* in = x.x + token * width;
    C sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < width; ++j)
      sum += static_cast<C>(dy[j]) * static_cast<C>(x.gain[j]) * static_cast<C>(in[j]);
    x.sums[token] = sum;
  });
}

// The sums over tokens read the gradients that the rows then overwrite.
template <typename T, typename G>
void whole_norm_backward(const HeadNormShape& s, const WholeNormBackward<T, G>& x) {
  using C = Compute<T>;
  const std::int64_t width = width_of(s);
  for_columns(s.tokens, width,
              [&](std::int64_t begin, std::int64_t end) { gain_columns(s, x, begin, end); });
  for_normed_tokens(s, [&](std::int64_t token) {
    T* dx = x.dx + token_at(s, token);
    const T* in = x.x + token * width;
    const C rstd = rstd_of(x.squares[token], x.width, x.epsilon);
    const C mean = x.products[token] * rstd / static_cast<C>(x.width);
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) {
      const C n = static_cast<C>(in[j]) * rstd;
      const C g = static_cast<C>(dx[j]) * static_cast<C>(x.gain[j]);
      dx[j] = static_cast<T>(rstd * (g - n * mean));
    }
  });
}

#define ZPLAN_INSTANTIATE(T)                                                             \
  template void whole_norm_squares<T>(const HeadNormShape&, const WholeNormSquares<T>&); \
  template void whole_norm_forward<T>(const HeadNormShape&, const WholeNormForward<T>&); \
  template void whole_norm_products<T>(const HeadNormShape&, const WholeNormProducts<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void whole_norm_backward<T, G>(const HeadNormShape&, const WholeNormBackward<T, G>&);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
