#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/norm.h"

namespace zplan::exec::cpu {
namespace {

// A gain, or 1 where there is none.
template <typename C, typename T>
struct Gain {
  const T* gain;
  C operator[](std::int64_t j) const { return static_cast<C>(gain[j]); }
};
template <typename C>
struct NoGain {
  C operator[](std::int64_t) const { return static_cast<C>(1); }
};
template <typename C, typename T, typename Body>
void with_gain(const T* gain, const Body& body) {
  if (gain != nullptr) return body(Gain<C, T>{gain});
  body(NoGain<C>{});
}

template <typename T>
void forward_row(const NormForward<T>& x, std::int64_t t, std::int64_t h) {
  using C = Compute<T>;
  const T* in = x.x + t * h;
  T* out = x.y + t * h;
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < h; ++j) sum += static_cast<C>(in[j]);
  const C mean = sum / static_cast<C>(h);
  C squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t j = 0; j < h; ++j) {
    const C centred = static_cast<C>(in[j]) - mean;
    squares += centred * centred;
  }
  const C variance = squares / static_cast<C>(h);
  const C rstd = static_cast<C>(1) / std::sqrt(variance + static_cast<C>(x.epsilon));
  if (x.bias != nullptr) {
#pragma omp simd
    for (std::int64_t j = 0; j < h; ++j) {
      const C normal = (static_cast<C>(in[j]) - mean) * rstd;
      out[j] = static_cast<T>(normal * static_cast<C>(x.gain[j]) + static_cast<C>(x.bias[j]));
    }
  } else {
    with_gain<C>(x.gain, [&](const auto& gain) {
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j)
        out[j] = static_cast<T>((static_cast<C>(in[j]) - mean) * rstd * gain[j]);
    });
  }
  x.mean[t] = mean;
  x.rstd[t] = rstd;
}

template <typename T, typename G, typename Gains>
void backward_row(const NormBackward<T, G>& x, const Gains& gain, std::int64_t t, std::int64_t h) {
  using C = Compute<T>;
  const T* in = x.x + t * h;
  const T* dy = x.dy + t * h;
  T* dx = x.dx + t * h;
  const C mean = x.mean[t], rstd = x.rstd[t];
  C sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
  for (std::int64_t j = 0; j < h; ++j) {
    const C g = static_cast<C>(dy[j]) * gain[j];
    sum_g += g;
    sum_gn += g * ((static_cast<C>(in[j]) - mean) * rstd);
  }
  const C mean_g = sum_g / static_cast<C>(h), mean_gn = sum_gn / static_cast<C>(h);
  const bool accumulate = x.accumulate_dx;
#pragma omp simd
  for (std::int64_t j = 0; j < h; ++j) {
    const C n = (static_cast<C>(in[j]) - mean) * rstd;
    const C value = rstd * (static_cast<C>(dy[j]) * gain[j] - mean_g - n * mean_gn);
    dx[j] = static_cast<T>(accumulate ? static_cast<C>(dx[j]) + value : value);
  }
}

// dgain and dbias of columns [begin, end), at most kColumnBlock of them.
template <typename T, typename G>
void backward_columns(const NormBackward<T, G>& x, const NormShape& shape, std::int64_t begin,
                      std::int64_t end) {
  using C = Compute<T>;
  C gain[kColumnBlock] = {}, bias[kColumnBlock] = {};
  const std::int64_t width = end - begin;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const T* dy = x.dy + t * shape.hidden + begin;
    const T* in = x.x + t * shape.hidden + begin;
    const C mean = x.mean[t], rstd = x.rstd[t];
    for (std::int64_t j = 0; j < width; ++j) {
      const C slope = static_cast<C>(dy[j]);
      gain[j] += slope * ((static_cast<C>(in[j]) - mean) * rstd);
      bias[j] += slope;
    }
  }
  const bool add = x.accumulate_parameters;
  for (std::int64_t j = 0; j < width; ++j) {
    G& dgain = x.dgain[begin + j];
    dgain = static_cast<G>(add ? static_cast<C>(dgain) + gain[j] : gain[j]);
    if (x.dbias == nullptr) continue;
    G& dbias = x.dbias[begin + j];
    dbias = static_cast<G>(add ? static_cast<C>(dbias) + bias[j] : bias[j]);
  }
}

}  // namespace

template <typename T>
void layernorm_forward(const NormShape& shape, const NormForward<T>& x) {
  for_rows(shape.tokens, shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) forward_row(x, t, shape.hidden);
  });
}

template <typename T, typename G>
void layernorm_backward(const NormShape& shape, const NormBackward<T, G>& x) {
  for_rows(shape.tokens, shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    with_gain<Compute<T>>(x.gain, [&](const auto& gain) {
      for (std::int64_t t = begin; t < end; ++t) backward_row(x, gain, t, shape.hidden);
    });
  });
  if (x.dgain == nullptr) return;
  for_columns(shape.tokens, shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    backward_columns(x, shape, begin, end);
  });
}

#define ZPLAN_INSTANTIATE(T) \
  template void layernorm_forward<T>(const NormShape&, const NormForward<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void layernorm_backward<T, G>(const NormShape&, const NormBackward<T, G>&);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
