// Strips of a matrix as register tiles read them: [depth, width], one row behind the other. Of a
// matrix whose stored rows are the strip's columns, squares are turned in registers. Internal to
// exec/cpu/kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "exec/cpu/kernels/lanes.h"

namespace zplan::exec::cpu {

// Elements behind a strip that pack_turned may write, too.
template <typename T>
inline constexpr std::int64_t kPackSlack = kVectorLanes<T>;

// From a and b, in turn, beginning with their elements `first`.
template <int first, typename V, int... i>
V interleave(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b,
                                 (first + i / 2 + (i % 2) * static_cast<int>(sizeof...(i)))...);
}

// to[p, j] = from[j, p] of `rows` rows j and as many p as a vector has lanes; of the other j
// zeros. Rows interleaved with those half the square further, as often as it has bits. [derived]
template <typename T>
void turn_square(const T* from, std::int64_t stride, std::int64_t rows, T* to, std::int64_t width) {
  using V = typename Lanes<T>::Type;
  using InMemory = typename Lanes<T>::InMemory;
  constexpr int kLanes = kVectorLanes<T>;
  using Indices = std::make_integer_sequence<int, kLanes>;
  V square[kLanes] = {}, next[kLanes];
#pragma GCC unroll 16
  for (int j = 0; j < kLanes; ++j)
    if (j < rows) square[j] = *reinterpret_cast<const InMemory*>(from + j * stride);
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
#pragma GCC unroll 16
    for (int j = 0; j < kLanes / 2; ++j) {
      next[2 * j] = interleave<0>(square[j], square[j + kLanes / 2], Indices{});
      next[2 * j + 1] = interleave<kLanes / 2>(square[j], square[j + kLanes / 2], Indices{});
    }
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) square[j] = next[j];
  }
#pragma GCC unroll 16
  for (int p = 0; p < kLanes; ++p) *reinterpret_cast<InMemory*>(to + p * width) = square[p];
}

// to[p * width + j] = from[j * stride + p] of j in [0, rows) and p in [0, depth). A square writes
// into places of the next row, which that row then fills: the last columns come first.
template <typename T>
void pack_turned(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t depth, T* to,
                 std::int64_t width) {
  constexpr std::int64_t kLanes = kVectorLanes<T>;
  std::int64_t p = 0;
  for (; p + kLanes <= depth; p += kLanes) {
    for (std::int64_t j = (rows - 1) / kLanes * kLanes; j >= 0; j -= kLanes)
      turn_square(from + j * stride + p, stride, rows - j, to + p * width + j, width);
  }
  for (; p < depth; ++p)
    for (std::int64_t j = 0; j < rows; ++j) to[p * width + j] = from[j * stride + p];
}

// Strips one behind the other of `columns` columns: to[p, j] = from[p * stride + j] of the first.
template <typename T>
void pack_rows(const T* from, std::int64_t stride, std::int64_t columns, std::int64_t depth, T* to,
               std::int64_t width) {
  for (std::int64_t p = 0; p < depth; ++p, from += stride, to += width) {
    T* strip = to;
    for (std::int64_t j = 0; j < columns; j += width, strip += width * depth)
      std::copy_n(from + j, std::min(width, columns - j), strip);
  }
}

}  // namespace zplan::exec::cpu
