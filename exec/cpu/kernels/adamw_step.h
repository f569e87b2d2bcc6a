// One AdamW step of elements of the type of the computation (optimizer.h). Internal to
// exec/cpu/kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/cpu/kernels/optimizer.h"

namespace zplan::exec::cpu {

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

// n elements, all of which decay by `keep` (1: none does).
template <typename C>
void update(C* __restrict p, C* __restrict m, C* __restrict v, const C* __restrict grad,
            std::int64_t n, const UpdateFactors<C>& f, C keep) {
  for (std::int64_t i = 0; i < n; ++i) {
    const C g = grad[i] * f.clip;
    m[i] = f.beta1 * m[i] + f.gain1 * g;
    v[i] = f.beta2 * v[i] + f.gain2 * g * g;
    const C denominator = std::sqrt(v[i]) / f.root_correction2 + f.eps;
    p[i] = p[i] * keep - f.step_size * (m[i] / denominator);
  }
}

// The first `decaying` of n elements decay.
template <typename C>
void update_all(C* p, C* m, C* v, const C* grad, std::int64_t n, const UpdateFactors<C>& f,
                std::int64_t decaying) {
  const std::int64_t border = std::clamp<std::int64_t>(decaying, 0, n);
  update(p, m, v, grad, border, f, f.keep);
  update(p + border, m + border, v + border, grad + border, n - border, f, static_cast<C>(1));
}

}  // namespace zplan::exec::cpu
