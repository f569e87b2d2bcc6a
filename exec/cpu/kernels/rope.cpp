#include "exec/cpu/kernels/rope.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kPairs = 64;  // worked on at a time

template <typename C>
struct Angles {
  C cosine[kPairs], sine[kPairs];
};

template <typename T>
void turn(T* first, T* second, std::int64_t n, const Angles<Compute<T>>& angles) {
  using C = Compute<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const C a = static_cast<C>(first[i]), b = static_cast<C>(second[i]);
    first[i] = static_cast<T>(a * angles.cosine[i] - b * angles.sine[i]);
    second[i] = static_cast<T>(b * angles.cosine[i] + a * angles.sine[i]);
  }
}

// Pairs [begin, begin + n) of all heads and sequences at one position.
template <typename T>
void turn_position(const RopeShape& s, T* x, std::int64_t position, std::int64_t begin,
                   std::int64_t n, const double* rates, int direction) {
  using C = Compute<T>;
  Angles<C> angles;
  for (std::int64_t i = 0; i < n; ++i) {
    const double angle = static_cast<double>(position) * rates[i];
    angles.cosine[i] = static_cast<C>(std::cos(angle));
    angles.sine[i] = static_cast<C>(direction * std::sin(angle));
  }
  for (std::int64_t b = 0; b < s.batch; ++b) {
    T* row = x + (b * s.sequence + position) * s.heads * s.head_dim;
    for (std::int64_t head = 0; head < s.turned; ++head) {
      T* first = row + head * s.head_dim + begin;
      turn(first, first + s.head_dim / 2, n, angles);
    }
  }
}

}  // namespace

template <typename T>
void rope(const RopeShape& s, T* x, double theta, int direction) {
  const std::int64_t pairs = s.head_dim / 2;
  for_rows(s.sequence, s.batch * s.turned * s.head_dim, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t begin = 0; begin < pairs; begin += kPairs) {
      const std::int64_t n = std::min(kPairs, pairs - begin);
      double rates[kPairs];
      for (std::int64_t i = 0; i < n; ++i)
        rates[i] = std::pow(
            theta, -2.0 * static_cast<double>(begin + i) / static_cast<double>(s.head_dim));
      for (std::int64_t position = from; position < to; ++position)
        turn_position(s, x, position, begin, n, rates, direction);
    }
  });
}

#define ZPLAN_INSTANTIATE(T) template void rope<T>(const RopeShape&, T*, double, int);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
