// The pass over a row before its softmax: maximum and sum of exp(x - maximum), in Compute<T>.
// Internal to exec/cpu/kernels. Left out: rows read in blocks (attention_forward.cpp).
#pragma once

#include <cstdint>
#include <limits>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

template <typename C>
struct SoftmaxStatistics {
  C most, sum;  // -infinity and 0 of an empty row
};

// Always inlined, as fast_exp is.
template <typename T>
[[gnu::always_inline]] inline SoftmaxStatistics<Compute<T>> softmax_statistics(const T* row,
                                                                               std::int64_t n) {
  using C = Compute<T>;
  C most = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < n; ++j) {
    const C value = static_cast<C>(row[j]);
    most = value > most ? value : most;
  }
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < n; ++j) sum += fast_exp(static_cast<C>(row[j]) - most);
  return {most, sum};
}

}  // namespace zplan::exec::cpu
