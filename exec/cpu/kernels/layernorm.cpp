#include "exec/cpu/kernels/layernorm.h"

#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
void forward_row(const LayernormForward<T>& x, std::int64_t t, std::int64_t h) {
  const T* in = x.x + t * h;
  T* out = x.y + t * h;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < h; ++j) sum += in[j];
  const T mean = sum / static_cast<T>(h);
  T squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t j = 0; j < h; ++j) squares += (in[j] - mean) * (in[j] - mean);
  const T variance = squares / static_cast<T>(h);
  const T rstd = static_cast<T>(1) / std::sqrt(variance + static_cast<T>(kLayernormEps));
  for (std::int64_t j = 0; j < h; ++j) out[j] = (in[j] - mean) * rstd * x.gain[j] + x.bias[j];
  x.mean[t] = mean;
  x.rstd[t] = rstd;
}

template <typename T>
void backward_row(const LayernormBackward<T>& x, std::int64_t t, std::int64_t h) {
  const T* in = x.x + t * h;
  const T* dy = x.dy + t * h;
  const T* gain = x.gain;
  T* dx = x.dx + t * h;
  const T mean = x.mean[t], rstd = x.rstd[t];
  T sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
  for (std::int64_t j = 0; j < h; ++j) {
    const T g = dy[j] * gain[j];
    sum_g += g;
    sum_gn += g * ((in[j] - mean) * rstd);
  }
  const T mean_g = sum_g / static_cast<T>(h), mean_gn = sum_gn / static_cast<T>(h);
  const bool accumulate = x.accumulate_dx;
  for (std::int64_t j = 0; j < h; ++j) {
    const T n = (in[j] - mean) * rstd;
    const T value = rstd * (dy[j] * gain[j] - mean_g - n * mean_gn);
    dx[j] = accumulate ? dx[j] + value : value;
  }
}

// dgain and dbias of columns [begin, end), at most kColumnBlock of them.
template <typename T>
void backward_columns(const LayernormBackward<T>& x, const LayernormShape& shape,
                      std::int64_t begin, std::int64_t end) {
  T gain[kColumnBlock] = {}, bias[kColumnBlock] = {};
  const std::int64_t width = end - begin;
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const T* dy = x.dy + t * shape.hidden + begin;
    const T* in = x.x + t * shape.hidden + begin;
    const T mean = x.mean[t], rstd = x.rstd[t];
    for (std::int64_t j = 0; j < width; ++j) {
      gain[j] += dy[j] * ((in[j] - mean) * rstd);
      bias[j] += dy[j];
    }
  }
  for (std::int64_t j = 0; j < width; ++j) {
    const bool add = x.accumulate_parameters;
    x.dgain[begin + j] = add ? x.dgain[begin + j] + gain[j] : gain[j];
    x.dbias[begin + j] = add ? x.dbias[begin + j] + bias[j] : bias[j];
  }
}

}  // namespace

template <typename T>
void layernorm_forward(const LayernormShape& shape, const LayernormForward<T>& x) {
  for_rows(shape.tokens, shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) forward_row(x, t, shape.hidden);
  });
}

template <typename T>
void layernorm_backward(const LayernormShape& shape, const LayernormBackward<T>& x) {
  for_rows(shape.tokens, shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) backward_row(x, t, shape.hidden);
  });
  for_columns(shape.tokens, shape.hidden, [&](std::int64_t begin, std::int64_t end) {
    backward_columns(x, shape, begin, end);
  });
}

template void layernorm_forward<float>(const LayernormShape&, const LayernormForward<float>&);
template void layernorm_forward<double>(const LayernormShape&, const LayernormForward<double>&);
template void layernorm_backward<float>(const LayernormShape&, const LayernormBackward<float>&);
template void layernorm_backward<double>(const LayernormShape&, const LayernormBackward<double>&);

}  // namespace zplan::exec::cpu
