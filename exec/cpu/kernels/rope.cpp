#include "exec/cpu/kernels/rope.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/rotation.h"

namespace zplan::exec::cpu {
namespace {

// Pairs [begin, begin + n) of all heads and sequences at one position after the first.
template <typename T>
void turn_position(const RopeShape& s, T* x, std::int64_t position, std::int64_t begin,
                   std::int64_t n, const Rates& rates, int direction) {
  const Angles<Compute<T>> angles(rates, s.first + position, n, direction, s.stretch);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    T* row = x + (b * s.sequence + position) * s.heads * s.head_dim;
    for (std::int64_t head = 0; head < s.turned; ++head) {
      T* first = row + head * s.head_dim + begin;
      T* second = first + s.pairs();
      turn(first, second, first, second, n, angles);
    }
  }
}

}  // namespace

template <typename T>
void rope(const RopeShape& s, T* x, double theta, int direction) {
  const std::int64_t pairs = s.pairs();
  for_rows(s.sequence, s.batch * s.turned * s.size, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t begin = 0; begin < pairs; begin += kPairs) {
      const std::int64_t n = std::min(kPairs, pairs - begin);
      const Rates rates(theta, s.size, begin, n);
      for (std::int64_t position = from; position < to; ++position)
        turn_position(s, x, position, begin, n, rates, direction);
    }
  });
}

#define ZPLAN_INSTANTIATE(T) template void rope<T>(const RopeShape&, T*, double, int);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
