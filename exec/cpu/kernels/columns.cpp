#include "exec/cpu/kernels/columns.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

// Calls move(in_row, in_pieces, n) for runs of n elements: where each begins in [T, c m] and in
// [c, T, m].
template <typename Move>
void for_runs(const ColumnPieces& s, const Move& move) {
  const std::int64_t width = s.width(), columns = s.pieces * width;
  for_rows(s.rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t piece = 0; piece < s.pieces; ++piece) {
        std::int64_t at = row * columns, to = (piece * s.rows + row) * width;
        for (const std::int64_t n : s.segments) {
          move(at + piece * n, to, n);
          at += s.pieces * n;
          to += n;
        }
      }
  });
}

}  // namespace

template <typename T>
void split_columns(const ColumnPieces& s, T* y, const T* x) {
  for_runs(s, [=](std::int64_t in_row, std::int64_t in_pieces, std::int64_t n) {
    std::copy_n(x + in_row, n, y + in_pieces);
  });
}

template <typename T>
void join_columns(const ColumnPieces& s, T* y, const T* x) {
  for_runs(s, [=](std::int64_t in_row, std::int64_t in_pieces, std::int64_t n) {
    std::copy_n(x + in_pieces, n, y + in_row);
  });
}

template <typename T>
void take_columns(const ColumnRange& s, T* y, const T* x) {
  for_rows(s.rows, s.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      std::copy_n(x + row * s.all + s.first, s.width, y + row * s.width);
  });
}

template <typename T>
void add_columns(const ColumnRange& s, T* y, const T* x) {
  using C = Compute<T>;
  for_rows(s.rows, s.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* from = x + row * s.width;
      T* to = y + row * s.all + s.first;
      for (std::int64_t i = 0; i < s.width; ++i)
        to[i] = static_cast<T>(static_cast<C>(to[i]) + static_cast<C>(from[i]));
    }
  });
}

#define ZPLAN_INSTANTIATE(T)                                         \
  template void take_columns<T>(const ColumnRange&, T*, const T*);   \
  template void add_columns<T>(const ColumnRange&, T*, const T*);    \
  template void split_columns<T>(const ColumnPieces&, T*, const T*); \
  template void join_columns<T>(const ColumnPieces&, T*, const T*);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
