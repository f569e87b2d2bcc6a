#include "exec/cpu/kernels/relative_positions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

std::int64_t RelativeBuckets::of(std::int64_t behind) const {
  const std::int64_t count = both_ways ? buckets / 2 : buckets;
  const std::int64_t first = both_ways && behind > 0 ? count : 0;
  const std::int64_t far = both_ways ? std::abs(behind) : std::max<std::int64_t>(0, -behind);
  const std::int64_t exact = count / 2;
  if (far < exact) return first + far;
  const double share = std::log(static_cast<double>(far) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(distance) / static_cast<double>(exact));
  const auto beyond = static_cast<std::int64_t>(share * static_cast<double>(count - exact));
  return first + std::min(count - 1, exact + beyond);
}

template <typename T>
void relative_positions(const RelativeBuckets& of, std::int64_t heads, std::int64_t sequence,
                        Compute<T>* bias, const T* table) {
  const std::int64_t r = 2 * sequence - 1;
  for (std::int64_t i = 0; i < r; ++i) {
    const T* row = table + of.of(i - (sequence - 1)) * heads;
    for (std::int64_t head = 0; head < heads; ++head)
      bias[head * r + i] = static_cast<Compute<T>>(row[head]);
  }
}

// The distances of a bucket lie side by side.
template <typename T, typename G>
void relative_positions_gradient(const RelativeBuckets& of, std::int64_t heads,
                                 std::int64_t sequence, G* dtable, const Compute<T>* dbias,
                                 bool accumulate) {
  using C = Compute<T>;
  const std::int64_t r = 2 * sequence - 1;
  if (!accumulate) std::fill_n(dtable, of.buckets * heads, static_cast<G>(0));
  for (std::int64_t begin = 0, end = 0; begin < r; begin = end) {
    const std::int64_t bucket = of.of(begin - (sequence - 1));
    while (end < r && of.of(end - (sequence - 1)) == bucket) ++end;
    for (std::int64_t head = 0; head < heads; ++head) {
      C sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += dbias[head * r + i];
      G& target = dtable[bucket * heads + head];
      target = static_cast<G>(static_cast<C>(target) + sum);
    }
  }
}

template <typename T>
void relative_scores(const SquareRows& s, std::int64_t heads, T* scores, const Compute<T>* bias) {
  const std::int64_t n = s.sequence, r = 2 * n - 1;
  for_rows(s.squares * n, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Compute<T>* own = bias + row / n % heads * r + (n - 1) - row % n;
      T* x = scores + row * n;
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j)
        x[j] = static_cast<T>(static_cast<Compute<T>>(x[j]) + own[j]);
    }
  });
}

template <typename T>
void relative_scores_gradient(const SquareRows& s, std::int64_t heads, Compute<T>* dbias,
                              const T* dscores) {
  const std::int64_t n = s.sequence, r = 2 * n - 1;
  for_blocks(heads, 1, s.squares * n * n, [&](std::int64_t head, std::int64_t) {
    for (std::int64_t square = head; square < s.squares; square += heads)
      for (std::int64_t query = 0; query < n; ++query) {
        Compute<T>* own = dbias + head * r + (n - 1) - query;
        const T* x = dscores + (square * n + query) * n;
#pragma omp simd
        for (std::int64_t j = 0; j < n; ++j) own[j] += static_cast<Compute<T>>(x[j]);
      }
  });
}

#define ZPLAN_INSTANTIATE(T)                                                                \
  template void relative_positions<T>(const RelativeBuckets&, std::int64_t, std::int64_t,   \
                                      Compute<T>*, const T*);                               \
  template void relative_scores<T>(const SquareRows&, std::int64_t, T*, const Compute<T>*); \
  template void relative_scores_gradient<T>(const SquareRows&, std::int64_t, Compute<T>*, const T*);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                         \
  template void relative_positions_gradient<T, G>(const RelativeBuckets&, std::int64_t, \
                                                  std::int64_t, G*, const Compute<T>*, bool);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
