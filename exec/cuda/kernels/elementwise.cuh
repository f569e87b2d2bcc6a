// Device code of elementwise.h. Streaming: each element is read once and written once.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

// [Hendrycks16] with the constants of GPT-2's code [Radford19].
inline constexpr float kTwoSqrtTwoOverPi = static_cast<float>(2 * 0.79788456080286535588);
inline constexpr float kCubic = 0.044715f;

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// sigmoid(2 u(x)) = (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)
__device__ inline float gelu_gate(float x) {
  return sigmoid(kTwoSqrtTwoOverPi * (x + kCubic * x * x * x));
}

// d/dx [x g] = g + x g (1 - g) d(2 u)/dx
__device__ inline float gelu_slope(float x) {
  const float g = gelu_gate(x);
  const float two_u_slope = kTwoSqrtTwoOverPi * (1.0f + 3.0f * kCubic * x * x);
  return g + x * g * (1.0f - g) * two_u_slope;
}

// x, y [n]
template <typename T, int kWidth>
__global__ void gelu_forward_kernel(T* y, const T* x, std::int64_t n) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    auto v = load<w>(x + i);
#pragma unroll
    for (int k = 0; k < w; ++k) v.at[k] *= gelu_gate(v.at[k]);
    store<w>(y + i, v);
  });
}

// dx, dy, x [n]
template <typename T, int kWidth>
__global__ void gelu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t n) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    const auto v = load<w>(x + i);
    auto slope = load<w>(dy + i);
#pragma unroll
    for (int k = 0; k < w; ++k) slope.at[k] *= gelu_slope(v.at[k]);
    store<w>(dx + i, slope);
  });
}

// y [rows, f], x [rows, 2 f]; kWidth divides f.
template <typename T, int kWidth>
__global__ void swiglu_forward_kernel(T* y, const T* x, std::int64_t rows, std::int64_t f) {
  for_rows(rows, [=](std::int64_t row) {
    for_columns<kWidth>(f, [=](std::int64_t j) {
      const T* gates = x + row * 2 * f + j;
      auto z = load<kWidth>(gates);
      const auto up = load<kWidth>(gates + f);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) z.at[k] = z.at[k] * sigmoid(z.at[k]) * up.at[k];
      store<kWidth>(y + row * f + j, z);
    });
  });
}

// dx, x [rows, 2 f], dy [rows, f]; kWidth divides f.
template <typename T, int kWidth>
__global__ void swiglu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t rows,
                                       std::int64_t f) {
  for_rows(rows, [=](std::int64_t row) {
    for_columns<kWidth>(f, [=](std::int64_t j) {
      const std::int64_t gate = row * 2 * f + j;
      auto z = load<kWidth>(x + gate), up = load<kWidth>(x + gate + f);
      const auto slope = load<kWidth>(dy + row * f + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const float g = sigmoid(z.at[k]), of_up = slope.at[k] * z.at[k] * g;
        z.at[k] = slope.at[k] * up.at[k] * g * (1.0f + z.at[k] * (1.0f - g));
        up.at[k] = of_up;
      }
      store<kWidth>(dx + gate, z);
      store<kWidth>(dx + gate + f, up);
    });
  });
}

// x [n]
template <typename T, int kWidth>
__global__ void scale_kernel(T* x, std::int64_t n, float factor) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    auto values = load<w>(x + i);
#pragma unroll
    for (int k = 0; k < w; ++k) values.at[k] *= factor;
    store<w>(x + i, values);
  });
}

// out, x, y [n]
template <typename T, int kWidth>
__global__ void residual_add_kernel(T* out, const T* x, const T* y, std::int64_t n) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    auto sum = load<w>(x + i);
    const auto branch = load<w>(y + i);
#pragma unroll
    for (int k = 0; k < w; ++k) sum.at[k] += branch.at[k];
    store<w>(out + i, sum);
  });
}

// out, x, y [rows, columns], bias [columns]; kWidth divides columns.
template <typename T, int kWidth>
__global__ void bias_residual_add_kernel(T* out, const T* x, const T* y, const T* bias,
                                         std::int64_t rows, std::int64_t columns) {
  for_rows(rows, [=](std::int64_t row) {
    for_columns<kWidth>(columns, [=](std::int64_t j) {
      const std::int64_t i = row * columns + j;
      auto sum = load<kWidth>(x + i);
      const auto branch = load<kWidth>(y + i), shift = load<kWidth>(bias + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.at[k] += branch.at[k] + shift.at[k];
      store<kWidth>(out + i, sum);
    });
  });
}

// y += x where kAdds, else y = x; x, y [n]
template <bool kAdds, typename To, typename From, int kWidth>
__global__ void convert_kernel(To* y, const From* x, std::int64_t n) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    auto v = load<w>(x + i);
    if constexpr (kAdds) {
      const auto before = load<w>(y + i);
#pragma unroll
      for (int k = 0; k < w; ++k) v.at[k] = before.at[k] + v.at[k];
    }
    store<w>(y + i, v);
  });
}

// Words of 16 bits, all zero; y [n]
template <int kWidth>
__global__ void fill_zero_kernel(std::uint16_t* y, std::int64_t n) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    *reinterpret_cast<Pack<std::uint16_t, w>*>(y + i) = {};
  });
}

}  // namespace zplan::exec::cuda
