// Recurrences by the delta rule share this: queries and keys of unit length, what a token does to
// a state, and the walk back over tokens. It is internal to exec/cpu/kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace zplan::exec::cpu {

inline constexpr double kLengthEpsilon = 1e-6;  // added to the squared length of a query or key
inline constexpr std::int64_t kMostSize = 512;  // of a key or value

template <typename C>
struct Unit {
  C values[kMostSize];
  C inverse;  // of the length that they are divided by
};
template <typename C, typename T>
void divide_by_length(const T* x, std::int64_t n, Unit<C>& unit) {
  C squares = 0;
  for (std::int64_t i = 0; i < n; ++i) squares += static_cast<C>(x[i]) * static_cast<C>(x[i]);
  unit.inverse = static_cast<C>(1) / std::sqrt(squares + static_cast<C>(kLengthEpsilon));
  for (std::int64_t i = 0; i < n; ++i) unit.values[i] = static_cast<C>(x[i]) * unit.inverse;
}
// The gradient of x from that of the result, added to `sum`.
template <typename C>
void length_backward(const Unit<C>& unit, const C* d, std::int64_t n, C* sum) {
  C along = 0;
  for (std::int64_t i = 0; i < n; ++i) along += d[i] * unit.values[i];
  for (std::int64_t i = 0; i < n; ++i) sum[i] += unit.inverse * (d[i] - along * unit.values[i]);
}

// The state S [d, v] decays, its row i by decay(i), and learns: S + beta k (value - S^T k)^T.
// `missing`: what of the value it lacked.
template <typename Shape, typename C, typename T, typename Decay>
void learn(const Shape& s, C* state, const Decay& decay, C beta, const C* k, const T* value,
           C* missing) {
  for (std::int64_t j = 0; j < s.value_size; ++j) missing[j] = static_cast<C>(value[j]);
  for (std::int64_t i = 0; i < s.key_size; ++i) {
    C* row = state + i * s.value_size;
    for (std::int64_t j = 0; j < s.value_size; ++j) {
      row[j] *= decay(i);
      missing[j] -= row[j] * k[i];
    }
  }
  for (std::int64_t i = 0; i < s.key_size; ++i)
    for (std::int64_t j = 0; j < s.value_size; ++j)
      state[i * s.value_size + j] += beta * k[i] * missing[j];
}

// The walk back over the tokens of a head works with this scratch.
template <typename C>
struct WalkScratch {
  C* begins;  // [chunks, d, v]: states before chunks
  C* inside;  // [chunk, d, v]: states before the tokens of one
  C* state;   // [d, v]
};
// Calls back(t, state before t) from the last token to the first. Only states before chunks are
// kept; those within a chunk come again from advance_over(state, t), which takes the state before t
// to that after it. `back` may overwrite work.state.
template <typename Shape, typename C, typename Advance, typename Back>
void walk_back(const Shape& s, const WalkScratch<C>& work, const Advance& advance_over,
               const Back& back) {
  std::fill_n(work.state, s.state(), static_cast<C>(0));
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    if (t % s.chunk == 0) std::copy_n(work.state, s.state(), work.begins + t / s.chunk * s.state());
    advance_over(work.state, t);
  }
  for (std::int64_t chunk = s.chunks(); chunk-- > 0;) {
    const std::int64_t first = chunk * s.chunk, end = std::min(first + s.chunk, s.sequence);
    std::copy_n(work.begins + chunk * s.state(), s.state(), work.inside);
    for (std::int64_t t = first; t + 1 < end; ++t) {
      C* before = work.inside + (t - first) * s.state();
      std::copy_n(before, s.state(), before + s.state());
      advance_over(before + s.state(), t);
    }
    for (std::int64_t t = end; t-- > first;) back(t, work.inside + (t - first) * s.state());
  }
}

}  // namespace zplan::exec::cpu
