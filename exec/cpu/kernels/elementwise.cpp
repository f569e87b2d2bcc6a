#include "exec/cpu/kernels/elementwise.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

// [Hendrycks16] with the constants of GPT-2's code [Radford19].
template <typename T>
constexpr T kTwoSqrtTwoOverPi = static_cast<T>(2 * 0.79788456080286535588);
template <typename T>
constexpr T kCubic = static_cast<T>(0.044715);

// sigmoid(2 u(x)) = (1 + tanh u) / 2
template <typename T>
inline T gate(T x) {
  const T two_u = kTwoSqrtTwoOverPi<T> * (x + kCubic<T> * x * x * x);
  return static_cast<T>(1) / (static_cast<T>(1) + fast_exp(-two_u));
}

// d/dx [x g] = g + x g (1 - g) d(2 u)/dx
template <typename T>
inline T gelu_slope(T x) {
  const T g = gate(x);
  const T two_u_slope = kTwoSqrtTwoOverPi<T> * (1 + 3 * kCubic<T> * x * x);
  return g + x * g * (1 - g) * two_u_slope;
}

}  // namespace

template <typename T>
void gelu_forward(T* y, const T* x, std::int64_t n) {
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] * gate(x[i]);
  });
}

template <typename T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t n) {
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) dx[i] = dy[i] * gelu_slope(x[i]);
  });
}

template <typename T>
void residual_add(T* out, const T* x, const T* y, std::int64_t n) {
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) out[i] = x[i] + y[i];
  });
}

template <typename T>
void accumulate(T* y, const T* x, std::int64_t n) {
  residual_add(y, y, x, n);
}

template <typename T>
void fill_zero(T* y, std::int64_t n) {
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
    std::fill(y + begin, y + end, static_cast<T>(0));
  });
}

#define ZPLAN_INSTANTIATE(T)                                            \
  template void gelu_forward<T>(T*, const T*, std::int64_t);            \
  template void gelu_backward<T>(T*, const T*, const T*, std::int64_t); \
  template void residual_add<T>(T*, const T*, const T*, std::int64_t);  \
  template void accumulate<T>(T*, const T*, std::int64_t);              \
  template void fill_zero<T>(T*, std::int64_t);
ZPLAN_INSTANTIATE(float)
ZPLAN_INSTANTIATE(double)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
