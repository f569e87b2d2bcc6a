// Recurrences by the delta rule share this: queries and keys of unit length. It is internal to
// exec/cpu/kernels.
#pragma once

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

}  // namespace zplan::exec::cpu
