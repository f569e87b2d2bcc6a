#include "exec/cpu/kernels/elementwise.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

// [Hendrycks16] with the constants of GPT-2's code [Radford19].
template <typename C>
constexpr C kTwoSqrtTwoOverPi = static_cast<C>(2 * 0.79788456080286535588);
template <typename C>
constexpr C kCubic = static_cast<C>(0.044715);

template <typename C>
[[gnu::always_inline]] inline C sigmoid(C x) {
  return static_cast<C>(1) / (static_cast<C>(1) + fast_exp(-x));
}

// sigmoid(2 u(x)) = (1 + tanh u) / 2
template <typename C>
[[gnu::always_inline]] inline C gate(C x) {
  return sigmoid(kTwoSqrtTwoOverPi<C> * (x + kCubic<C> * x * x * x));
}

// Activation functions and their slopes.
template <typename C>
struct GeluTanh {
  [[gnu::always_inline]] static C value(C x) { return x * gate(x); }
  // d/dx [x g] = g + x g (1 - g) d(2 u)/dx
  [[gnu::always_inline]] static C slope(C x) {
    const C g = gate(x);
    const C two_u_slope = kTwoSqrtTwoOverPi<C> * (1 + 3 * kCubic<C> * x * x);
    return g + x * g * (1 - g) * two_u_slope;
  }
};

// With the normal distribution, Phi(x) = (1 + erf(x / sqrt 2)) / 2, and its density.
template <typename C>
struct Gelu {
  static C share(C x) {
    return static_cast<C>(0.5) * (1 + std::erf(x * static_cast<C>(0.70710678118654752440)));
  }
  static C value(C x) { return x * share(x); }
  static C slope(C x) {
    constexpr C kInverseRootOfTwoPi = static_cast<C>(0.39894228040143267794);
    return share(x) + x * kInverseRootOfTwoPi * fast_exp(static_cast<C>(-0.5) * x * x);
  }
};

template <typename C>
struct Silu {
  [[gnu::always_inline]] static C value(C x) { return x * sigmoid(x); }
  [[gnu::always_inline]] static C slope(C x) {
    const C g = sigmoid(x);
    return g * (1 + x * (1 - g));
  }
};

template <typename C>
struct Relu {
  [[gnu::always_inline]] static C value(C x) { return x > 0 ? x : static_cast<C>(0); }
  [[gnu::always_inline]] static C slope(C x) { return static_cast<C>(x > 0 ? 1 : 0); }
};

// max(0, x)^2 [So21]
template <typename C>
struct SquaredRelu {
  [[gnu::always_inline]] static C value(C x) { return x > 0 ? x * x : static_cast<C>(0); }
  [[gnu::always_inline]] static C slope(C x) { return x > 0 ? 2 * x : static_cast<C>(0); }
};

// x sigmoid(1.702 x) [Hendrycks16 sec 2]
template <typename C>
struct QuickGelu {
  static constexpr C kSteepness = static_cast<C>(1.702);
  [[gnu::always_inline]] static C value(C x) { return x * sigmoid(kSteepness * x); }
  [[gnu::always_inline]] static C slope(C x) {
    const C g = sigmoid(kSteepness * x);
    return g * (1 + kSteepness * x * (1 - g));
  }
};

// At most the limit; what is no number stays so.
template <typename C>
[[gnu::always_inline]] inline C at_most(C x, C limit) {
  return x > limit ? limit : x;
}
template <typename C>
[[gnu::always_inline]] inline C at_least(C x, C limit) {
  return x < limit ? limit : x;
}

// Calls body(the function's struct).
template <typename C, typename Body>
void with_function(ActivationFunction function, const Body& body) {
  switch (function) {
    case ActivationFunction::kOwn:
    case ActivationFunction::kGeluTanh:
      return body(GeluTanh<C>{});
    case ActivationFunction::kGelu:
      return body(Gelu<C>{});
    case ActivationFunction::kSilu:
      return body(Silu<C>{});
    case ActivationFunction::kRelu:
      return body(Relu<C>{});
    case ActivationFunction::kQuickGelu:
      return body(QuickGelu<C>{});
    case ActivationFunction::kSquaredRelu:
      return body(SquaredRelu<C>{});
  }
}

}  // namespace

template <typename T>
void gelu_forward(T* y, const T* x, std::int64_t n, ActivationFunction function) {
  using C = Compute<T>;
  with_function<C>(function, [=]<typename F>(F) {
    for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        y[i] = static_cast<T>(F::value(static_cast<C>(x[i])));
    });
  });
}

template <typename T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t n, ActivationFunction function) {
  using C = Compute<T>;
  with_function<C>(function, [=]<typename F>(F) {
    for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i)
        dx[i] = static_cast<T>(static_cast<C>(dy[i]) * F::slope(static_cast<C>(x[i])));
    });
  });
}

template <typename T>
void swiglu_forward(const SwigluShape& s, T* y, const T* x) {
  using C = Compute<T>;
  const C limit = static_cast<C>(s.limit), offset = static_cast<C>(s.offset);
  with_function<C>(s.function, [=]<typename F>(F) {
    for_rows(s.tokens, 2 * s.width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const T* gates = x + t * 2 * s.width;
        const T* ups = gates + s.width;
        T* out = y + t * s.width;
#pragma omp simd
        for (std::int64_t j = 0; j < s.width; ++j) {
          const C gate = at_most(static_cast<C>(gates[j]), limit);
          const C up = at_least(at_most(static_cast<C>(ups[j]), limit), -limit) + offset;
          out[j] = static_cast<T>(F::value(gate) * up);
        }
      }
    });
  });
}

template <typename T>
void swiglu_backward(const SwigluShape& s, T* dx, const T* dy, const T* x) {
  using C = Compute<T>;
  const C limit = static_cast<C>(s.limit), offset = static_cast<C>(s.offset);
  with_function<C>(s.function, [=]<typename F>(F) {
    for_rows(s.tokens, 2 * s.width, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t row = t * 2 * s.width;
#pragma omp simd
        for (std::int64_t j = 0; j < s.width; ++j) {
          const C z = static_cast<C>(x[row + j]), up = static_cast<C>(x[row + s.width + j]);
          const C slope = static_cast<C>(dy[t * s.width + j]);
          const C gate = at_most(z, limit);
          const C factor = at_least(at_most(up, limit), -limit) + offset;
          const C of_gate = slope * factor * F::slope(gate), of_up = slope * F::value(gate);
          dx[row + j] = static_cast<T>(z > limit ? C{0} : of_gate);
          dx[row + s.width + j] = static_cast<T>(up > limit || up < -limit ? C{0} : of_up);
        }
      }
    });
  });
}

template <typename T>
void soft_cap_forward(T* y, const T* x, std::int64_t n, double cap) {
  using C = Compute<T>;
  const C c = static_cast<C>(cap);
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(c * std::tanh(static_cast<C>(x[i]) / c));
  });
}

template <typename T>
void soft_cap_backward(T* dx, const T* x, std::int64_t n, double cap) {
  using C = Compute<T>;
  const C c = static_cast<C>(cap);
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const C bent = std::tanh(static_cast<C>(x[i]) / c);
      dx[i] = static_cast<T>(static_cast<C>(dx[i]) * (1 - bent * bent));
    }
  });
}

template <typename T>
void scale(T* x, std::int64_t n, double factor) {
  using C = Compute<T>;
  const auto by = static_cast<C>(factor);
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) x[i] = static_cast<T>(static_cast<C>(x[i]) * by);
  });
}

template <typename T>
void residual_add(T* out, const T* x, const T* y, std::int64_t n) {
  using C = Compute<T>;
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = static_cast<T>(static_cast<C>(x[i]) + static_cast<C>(y[i]));
    }
  });
}

template <typename T>
void bias_residual_add(T* out, const T* x, const T* y, const T* bias, std::int64_t rows,
                       std::int64_t columns) {
  using C = Compute<T>;
  for_rows(rows, columns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t row = t * columns;
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) {
        const C branch = static_cast<C>(y[row + j]) + static_cast<C>(bias[j]);
        out[row + j] = static_cast<T>(static_cast<C>(x[row + j]) + branch);
      }
    }
  });
}

template <typename To, typename From>
void accumulate(To* y, const From* x, std::int64_t n) {
  using C = Compute<To>;
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      y[i] = static_cast<To>(static_cast<C>(y[i]) + static_cast<C>(x[i]));
    }
  });
}

template <typename To, typename From>
void cast(To* y, const From* x, std::int64_t n) {
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<To>(x[i]);
  });
}

template <typename T>
void fill_zero(T* y, std::int64_t n) {
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
    std::fill(y + begin, y + end, static_cast<T>(0));
  });
}

template <typename T, typename G>
void column_sums(G* out, const T* in, std::int64_t rows, std::int64_t columns, bool accumulate) {
  using C = Compute<T>;
  for_columns(rows, columns, [=](std::int64_t begin, std::int64_t end) {
    C sum[kColumnBlock] = {};
    const std::int64_t width = end - begin;
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* row = in + i * columns + begin;
      for (std::int64_t j = 0; j < width; ++j) sum[j] += static_cast<C>(row[j]);
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const C before = accumulate ? static_cast<C>(out[begin + j]) : static_cast<C>(0);
      out[begin + j] = static_cast<G>(before + sum[j]);
    }
  });
}

#define ZPLAN_INSTANTIATE(T)                                                                \
  template void gelu_forward<T>(T*, const T*, std::int64_t, ActivationFunction);            \
  template void gelu_backward<T>(T*, const T*, const T*, std::int64_t, ActivationFunction); \
  template void soft_cap_forward<T>(T*, const T*, std::int64_t, double);                    \
  template void soft_cap_backward<T>(T*, const T*, std::int64_t, double);                   \
  template void swiglu_forward<T>(const SwigluShape&, T*, const T*);                        \
  template void swiglu_backward<T>(const SwigluShape&, T*, const T*, const T*);             \
  template void scale<T>(T*, std::int64_t, double);                                         \
  template void residual_add<T>(T*, const T*, const T*, std::int64_t);                      \
  template void bias_residual_add<T>(T*, const T*, const T*, const T*, std::int64_t,        \
                                     std::int64_t);                                         \
  template void fill_zero<T>(T*, std::int64_t);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

#define ZPLAN_INSTANTIATE(T, G) \
  template void column_sums<T, G>(G*, const T*, std::int64_t, std::int64_t, bool);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

#define ZPLAN_INSTANTIATE(To, From)                                   \
  template void accumulate<To, From>(To*, const From*, std::int64_t); \
  template void cast<To, From>(To*, const From*, std::int64_t);
ZPLAN_INSTANTIATE(double, double)
ZPLAN_INSTANTIATE(float, float)
ZPLAN_INSTANTIATE(float, Bf16)
ZPLAN_INSTANTIATE(float, Fp16)
ZPLAN_INSTANTIATE(Bf16, float)
ZPLAN_INSTANTIATE(Bf16, Bf16)
ZPLAN_INSTANTIATE(Bf16, Fp16)
ZPLAN_INSTANTIATE(Fp16, float)
ZPLAN_INSTANTIATE(Fp16, Bf16)
ZPLAN_INSTANTIATE(Fp16, Fp16)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
