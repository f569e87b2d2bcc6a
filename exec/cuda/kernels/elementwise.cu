#include "exec/cuda/kernels/elementwise.cuh"

#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {
namespace {

template <bool kAdds, typename To, typename From>
void convert(cudaStream_t stream, const char* name, To* y, const From* x, std::int64_t n) {
  // Threads side by side read and write side by side, with accesses of the wider type in full.
  constexpr int kWidest = std::min(kWidthOf<To>, kWidthOf<From>);
  with_width<kWidest>(is_aligned({y, x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, name, grid_of(n, w * kConvertedAhead), convert_kernel<kAdds, To, From, w>, y, x,
           n);
  });
}

Gating gating_of(const SwigluShape& s) {
  return {s.function, static_cast<float>(s.limit), static_cast<float>(s.offset)};
}

}  // namespace

template <typename T>
void gelu_forward(cudaStream_t stream, T* y, const T* x, std::int64_t n,
                  ActivationFunction function) {
  with_width<kWidthOf<T>>(is_aligned({y, x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "gelu_forward", grid_of(n, w * kActivationsAhead), gelu_forward_kernel<T, w>, y,
           x, n, function);
  });
}

template <typename T>
void gelu_backward(cudaStream_t stream, T* dx, const T* dy, const T* x, std::int64_t n,
                   ActivationFunction function) {
  with_width<kWidthOf<T>>(is_aligned({dx, dy, x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "gelu_backward", grid_of(n, w * kActivationsAhead), gelu_backward_kernel<T, w>,
           dx, dy, x, n, function);
  });
}

template <typename T>
void swiglu_forward(cudaStream_t stream, const SwigluShape& s, T* y, const T* x) {
  const bool wide = is_aligned({y, x}) && s.width % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "swiglu_forward", grid_of_rows(s.tokens, s.width, w),
           swiglu_forward_kernel<T, w>, y, x, s.tokens, s.width, gating_of(s));
  });
}

template <typename T>
void swiglu_backward(cudaStream_t stream, const SwigluShape& s, T* dx, const T* dy, const T* x) {
  const bool wide = is_aligned({dx, dy, x}) && s.width % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "swiglu_backward", grid_of_rows(s.tokens, s.width, w),
           swiglu_backward_kernel<T, w>, dx, dy, x, s.tokens, s.width, gating_of(s));
  });
}

template <typename T>
void soft_cap_forward(cudaStream_t stream, T* y, const T* x, std::int64_t n, double cap) {
  with_width<kWidthOf<T>>(is_aligned({y, x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "soft_cap_forward", grid_of(n, w), soft_cap_forward_kernel<T, w>, y, x, n,
           static_cast<float>(cap));
  });
}

template <typename T>
void soft_cap_backward(cudaStream_t stream, T* dx, const T* x, std::int64_t n, double cap) {
  with_width<kWidthOf<T>>(is_aligned({dx, x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "soft_cap_backward", grid_of(n, w), soft_cap_backward_kernel<T, w>, dx, x, n,
           static_cast<float>(cap));
  });
}

template <typename T>
void scale(cudaStream_t stream, T* x, std::int64_t n, double factor) {
  with_width<kWidthOf<T>>(is_aligned({x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "scale", grid_of(n, w), scale_kernel<T, w>, x, n, static_cast<float>(factor));
  });
}

template <typename T>
void residual_add(cudaStream_t stream, T* out, const T* x, const T* y, std::int64_t n) {
  with_width<kWidthOf<T>>(is_aligned({out, x, y}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "residual_add", grid_of(n, w), residual_add_kernel<T, w>, out, x, y, n);
  });
}

template <typename T>
void bias_residual_add(cudaStream_t stream, T* out, const T* x, const T* y, const T* bias,
                       std::int64_t rows, std::int64_t columns) {
  const bool wide = is_aligned({out, x, y, bias}) && columns % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "bias_residual_add", grid_of_rows(rows, columns, w),
           bias_residual_add_kernel<T, w>, out, x, y, bias, rows, columns);
  });
}

template <typename To, typename From>
void accumulate(cudaStream_t stream, To* y, const From* x, std::int64_t n) {
  convert<true>(stream, "accumulate", y, x, n);
}

template <typename To, typename From>
void cast(cudaStream_t stream, To* y, const From* x, std::int64_t n) {
  convert<false>(stream, "cast", y, x, n);
}

void fill_zero(cudaStream_t stream, void* y, std::int64_t bytes) {
  auto* words = static_cast<std::uint16_t*>(y);
  const std::int64_t n = bytes / static_cast<std::int64_t>(sizeof(std::uint16_t));
  with_width<kWidthOf<std::uint16_t>>(is_aligned({y}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "fill_zero", grid_of(n, w), fill_zero_kernel<w>, words, n);
  });
}

#define ZPLAN_INSTANTIATE(T)                                                                       \
  template void gelu_forward<T>(cudaStream_t, T*, const T*, std::int64_t, ActivationFunction);     \
  template void gelu_backward<T>(cudaStream_t, T*, const T*, const T*, std::int64_t,               \
                                 ActivationFunction);                                              \
  template void soft_cap_forward<T>(cudaStream_t, T*, const T*, std::int64_t, double);             \
  template void soft_cap_backward<T>(cudaStream_t, T*, const T*, std::int64_t, double);            \
  template void swiglu_forward<T>(cudaStream_t, const SwigluShape&, T*, const T*);                 \
  template void swiglu_backward<T>(cudaStream_t, const SwigluShape&, T*, const T*, const T*);      \
  template void scale<T>(cudaStream_t, T*, std::int64_t, double);                                  \
  template void residual_add<T>(cudaStream_t, T*, const T*, const T*, std::int64_t);               \
  template void bias_residual_add<T>(cudaStream_t, T*, const T*, const T*, const T*, std::int64_t, \
                                     std::int64_t);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(To, From)                                                 \
  template void accumulate<To, From>(cudaStream_t, To*, const From*, std::int64_t); \
  template void cast<To, From>(cudaStream_t, To*, const From*, std::int64_t);
ZPLAN_FOR_CUDA_STATES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
