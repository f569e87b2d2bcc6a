// Device code of elementwise.h. Streaming: each element is read once and written once.
#pragma once

#include "exec/cuda/kernels/approximations.cuh"
#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/elementwise.h"

namespace zplan::exec::cuda {

// [Hendrycks16] with the constants of GPT-2's code [Radford19].
inline constexpr float kTwoSqrtTwoOverPi = static_cast<float>(2 * 0.79788456080286535588);
inline constexpr float kCubic = 0.044715f;
inline constexpr float kQuickSteepness = 1.702f;  // [Hendrycks16 sec 2]

__device__ inline float sigmoid(float x) {
  return approximate_inverse(1.0f + approximate_exp2(-kLog2OfE * x));
}

// sigmoid(2 u(x)) = (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3)
__device__ inline float gelu_gate(float x) {
  constexpr float kLinear = -kTwoSqrtTwoOverPi * kLog2OfE;
  return approximate_inverse(1.0f + approximate_exp2(x * (kLinear + kLinear * kCubic * (x * x))));
}

// d/dx [x g] = g + x g (1 - g) d(2 u)/dx
__device__ inline float gelu_slope(float x) {
  const float g = gelu_gate(x);
  const float two_u_slope = kTwoSqrtTwoOverPi + (3.0f * kTwoSqrtTwoOverPi * kCubic) * (x * x);
  return g + x * g * (1.0f - g) * two_u_slope;
}

// Exact GELU with the normal distribution, (1 + erf(x / sqrt 2)) / 2, and its density.
__device__ inline float normal_share(float x) {
  return 0.5f * (1.0f + erff(x * 0.70710678118654752440f));
}

__device__ inline float activation(ActivationFunction function, float x) {
  switch (function) {
    case ActivationFunction::kGelu:
      return x * normal_share(x);
    case ActivationFunction::kSilu:
      return x * sigmoid(x);
    case ActivationFunction::kRelu:
      return x > 0.0f ? x : 0.0f;
    case ActivationFunction::kQuickGelu:
      return x * sigmoid(kQuickSteepness * x);
    case ActivationFunction::kSquaredRelu:
      return x > 0.0f ? x * x : 0.0f;
    default:
      return x * gelu_gate(x);
  }
}

__device__ inline float activation_slope(ActivationFunction function, float x) {
  switch (function) {
    case ActivationFunction::kGelu:
      return normal_share(x) + x * 0.39894228040143267794f * expf(-0.5f * x * x);
    case ActivationFunction::kSilu: {
      const float g = sigmoid(x);
      return g * (1.0f + x * (1.0f - g));
    }
    case ActivationFunction::kRelu:
      return x > 0.0f ? 1.0f : 0.0f;
    case ActivationFunction::kQuickGelu: {
      const float quick = sigmoid(kQuickSteepness * x);
      return quick * (1.0f + kQuickSteepness * x * (1.0f - quick));
    }
    case ActivationFunction::kSquaredRelu:
      return x > 0.0f ? 2.0f * x : 0.0f;
    default:
      return gelu_slope(x);
  }
}

template <ActivationFunction kFunction>
using Activation = std::integral_constant<ActivationFunction, kFunction>;

// Calls body(Activation), so that what is in it asks once, not for each element.
template <typename Body>
__device__ inline void with_activation(ActivationFunction function, const Body& body) {
  switch (function) {
    case ActivationFunction::kGelu:
      return body(Activation<ActivationFunction::kGelu>{});
    case ActivationFunction::kSilu:
      return body(Activation<ActivationFunction::kSilu>{});
    case ActivationFunction::kRelu:
      return body(Activation<ActivationFunction::kRelu>{});
    case ActivationFunction::kQuickGelu:
      return body(Activation<ActivationFunction::kQuickGelu>{});
    case ActivationFunction::kSquaredRelu:
      return body(Activation<ActivationFunction::kSquaredRelu>{});
    default:
      return body(Activation<ActivationFunction::kGeluTanh>{});
  }
}

inline constexpr int kActivationsAhead = 2;  // [assumed] packs of a thread under way

// x, y [n]
template <typename T, int kWidth>
__global__ void gelu_forward_kernel(T* y, const T* x, std::int64_t n, ActivationFunction function) {
  with_activation(function, [=](auto known) {
    for_packs_ahead<kWidth, kActivationsAhead>(
        n, [=](auto width, std::int64_t i) { return load_bits<decltype(width)::value>(x + i); },
        [=](auto width, std::int64_t i, const auto& bits) {
          constexpr int w = decltype(width)::value;
          auto v = widen(bits);
#pragma unroll
          for (int k = 0; k < w; ++k) v.at[k] = activation(decltype(known)::value, v.at[k]);
          store<w>(y + i, v);
        });
  });
}

// dx, dy, x [n]
template <typename T, int kWidth>
__global__ void gelu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t n,
                                     ActivationFunction function) {
  const auto read = [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    return Values<PackBits<T, w>, 2>{{load_bits<w>(x + i), load_bits<w>(dy + i)}};
  };
  with_activation(function, [=](auto known) {
    for_packs_ahead<kWidth, kActivationsAhead>(
        n, read, [=](auto width, std::int64_t i, const auto& bits) {
          constexpr int w = decltype(width)::value;
          const auto v = widen(bits.at[0]);
          auto slope = widen(bits.at[1]);
#pragma unroll
          for (int k = 0; k < w; ++k)
            slope.at[k] *= activation_slope(decltype(known)::value, v.at[k]);
          store<w>(dx + i, slope);
        });
  });
}

// What the gate does with the other half; infinity and 0 leave it as it is.
struct Gating {
  ActivationFunction function;
  float limit, offset;

  // Comparisons that keep what is no number.
  __device__ float gate(float x) const { return x > limit ? limit : x; }
  __device__ float factor(float up) const {
    return (up > limit ? limit : up < -limit ? -limit : up) + offset;
  }
};

// y [rows, f], x [rows, 2 f]; kWidth divides f.
template <typename T, int kWidth>
__global__ void swiglu_forward_kernel(T* y, const T* x, std::int64_t rows, std::int64_t f,
                                      Gating gating) {
  with_activation(gating.function, [=](auto known) {
    for_rows(rows, [=](std::int64_t row) {
      for_columns<kWidth>(f, [=](std::int64_t j) {
        const T* gates = x + row * 2 * f + j;
        auto z = load<kWidth>(gates);
        const auto up = load<kWidth>(gates + f);
#pragma unroll
        for (int k = 0; k < kWidth; ++k)
          z.at[k] =
              activation(decltype(known)::value, gating.gate(z.at[k])) * gating.factor(up.at[k]);
        store<kWidth>(y + row * f + j, z);
      });
    });
  });
}

// Of one pair: the gate's slope in z, the other half's in up.
template <ActivationFunction kFunction>
__device__ inline void gated_slopes(const Gating& gating, float slope, float& z, float& up) {
  const float gate = gating.gate(z);
  const float of_gate = slope * gating.factor(up) * activation_slope(kFunction, gate);
  const bool is_within = !(up > gating.limit || up < -gating.limit);
  up = is_within ? slope * activation(kFunction, gate) : 0.0f;
  z = z > gating.limit ? 0.0f : of_gate;
}

// dx, x [rows, 2 f], dy [rows, f]; kWidth divides f.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kThreads, 4)
    swiglu_backward_kernel(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t f,
                           Gating gating) {
  with_activation(gating.function, [=](auto known) {
    for_rows(rows, [=](std::int64_t row) {
      for_columns<kWidth>(f, [=](std::int64_t j) {
        const std::int64_t gate = row * 2 * f + j;
        auto z = load<kWidth>(x + gate), up = load<kWidth>(x + gate + f);
        const auto slope = load<kWidth>(dy + row * f + j);
#pragma unroll
        for (int k = 0; k < kWidth; ++k)
          gated_slopes<decltype(known)::value>(gating, slope.at[k], z.at[k], up.at[k]);
        store<kWidth>(dx + gate, z);
        store<kWidth>(dx + gate + f, up);
      });
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

// x, y [n]
template <typename T, int kWidth>
__global__ void soft_cap_forward_kernel(T* y, const T* x, std::int64_t n, float cap) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    auto v = load<w>(x + i);
#pragma unroll
    for (int k = 0; k < w; ++k) v.at[k] = cap * tanhf(v.at[k] / cap);
    store<w>(y + i, v);
  });
}

// dx, x [n]
template <typename T, int kWidth>
__global__ void soft_cap_backward_kernel(T* dx, const T* x, std::int64_t n, float cap) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    const auto v = load<w>(x + i);
    auto slope = load<w>(dx + i);
#pragma unroll
    for (int k = 0; k < w; ++k) {
      const float bent = tanhf(v.at[k] / cap);
      slope.at[k] *= 1.0f - bent * bent;
    }
    store<w>(dx + i, slope);
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

// [assumed] packs of a thread under way: half a pack of 16 bits and a whole one of 32 are few.
inline constexpr int kConvertedAhead = 4;

template <bool kAdds, typename To, typename From, int kWidth>
struct Converted {
  PackBits<From, kWidth> x;
  PackBits<To, kAdds ? kWidth : 1> y;  // what is added to
};

// y += x where kAdds, else y = x; x, y [n]
template <bool kAdds, typename To, typename From, int kWidth>
__global__ void convert_kernel(To* y, const From* x, std::int64_t n) {
  const auto read = [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    Converted<kAdds, To, From, w> at;
    at.x = load_bits<w>(x + i);
    if constexpr (kAdds) at.y = load_bits<w>(y + i);
    return at;
  };
  const auto write = [=](auto width, std::int64_t i, const auto& at) {
    constexpr int w = decltype(width)::value;
    auto v = widen(at.x);
    if constexpr (kAdds) {
      const auto before = widen(at.y);
#pragma unroll
      for (int k = 0; k < w; ++k) v.at[k] = before.at[k] + v.at[k];
    }
    store<w>(y + i, v);
  };
  for_packs_ahead<kWidth, kConvertedAhead>(n, read, write);
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
