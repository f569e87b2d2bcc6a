#include "exec/cpu/kernels/optimizer.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr double kClipEps = 1e-6;               // [PyTorch] clip_grad_norm_
constexpr std::int64_t kMostPartialSums = 256;  // 2 KiB on the stack

// The step's scalars in the type of the computation.
template <typename T>
struct UpdateFactors {
  T clip, keep, beta1, gain1, beta2, gain2, step_size, root_correction2, eps;
};

template <typename T>
UpdateFactors<T> update_factors(const AdamwScalars& s) {
  return {static_cast<T>(s.clip_coefficient),
          static_cast<T>(1.0 - s.learning_rate * s.weight_decay),
          static_cast<T>(s.beta1),
          static_cast<T>(1.0 - s.beta1),
          static_cast<T>(s.beta2),
          static_cast<T>(1.0 - s.beta2),
          static_cast<T>(s.learning_rate / s.bias_correction1),
          static_cast<T>(std::sqrt(s.bias_correction2)),
          static_cast<T>(s.eps)};
}

// Elements [begin, end), all of which decay by `keep` (1: none does).
template <typename T>
void update(const Adamw<T>& x, const UpdateFactors<T>& f, T keep, std::int64_t begin,
            std::int64_t end) {
  T* __restrict p = x.master;
  T* __restrict m = x.m;
  T* __restrict v = x.v;
  const T* __restrict grad = x.grad;
  for (std::int64_t i = begin; i < end; ++i) {
    const T g = grad[i] * f.clip;
    m[i] = f.beta1 * m[i] + f.gain1 * g;
    v[i] = f.beta2 * v[i] + f.gain2 * g * g;
    const T denominator = std::sqrt(v[i]) / f.root_correction2 + f.eps;
    p[i] = p[i] * keep - f.step_size * (m[i] / denominator);
  }
}

template <typename T>
double squares_of(const T* x, std::int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    sum += value * value;
  }
  return sum;
}

}  // namespace

template <typename T>
void sum_squares(double* sum, const T* x, std::int64_t n) {
  const std::int64_t block =
      std::max(kElementBlock, round_up(ceil_div(n, kMostPartialSums), kElementBlock));
  double partial[kMostPartialSums] = {};
  for_blocks(n, block, n, [&](std::int64_t begin, std::int64_t end) {
    partial[begin / block] = squares_of(x + begin, end - begin);
  });
  for (std::int64_t i = 0; i < ceil_div(n, block); ++i) *sum += partial[i];
}

ClipResult clip_coefficient(double global_sum_of_squares, double max_norm) {
  const double norm = std::sqrt(global_sum_of_squares);
  if (!std::isfinite(norm)) return {norm, 0.0, true};
  return {norm, std::min(1.0, max_norm / (norm + kClipEps)), false};
}

template <typename T>
void adamw(const AdamwScalars& scalars, const Adamw<T>& x) {
  const UpdateFactors<T> factors = update_factors<T>(scalars);
  const std::int64_t decaying = std::clamp<std::int64_t>(x.decay_elements - x.flat_offset, 0, x.n);
  for_elements(x.n, [&](std::int64_t begin, std::int64_t end) {
    if (!scalars.skip) {
      const std::int64_t border = std::clamp(decaying, begin, end);
      update(x, factors, factors.keep, begin, border);
      update(x, factors, static_cast<T>(1), border, end);
    }
    if (x.param != nullptr) std::copy(x.master + begin, x.master + end, x.param + begin);
  });
}

template void sum_squares<float>(double*, const float*, std::int64_t);
template void sum_squares<double>(double*, const double*, std::int64_t);
template void adamw<float>(const AdamwScalars&, const Adamw<float>&);
template void adamw<double>(const AdamwScalars&, const Adamw<double>&);

}  // namespace zplan::exec::cpu
