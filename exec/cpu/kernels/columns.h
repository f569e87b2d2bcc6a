// Columns of a matrix cut into pieces that lie one after the other, and back: what goes to several
// ranks is packed so.
#pragma once

#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

// y [c, T, m] = the pieces of x [T, c m]. 2 T c m elements moved.
template <typename T>
void split_columns(const ColumnPieces& shape, T* y, const T* x);

// y [T, c m] from pieces x [c, T, m]. 2 T c m elements moved.
template <typename T>
void join_columns(const ColumnPieces& shape, T* y, const T* x);

// Columns [first, first + width) of rows of `all` elements.
struct ColumnRange {
  std::int64_t rows, all, first, width;
};

// y [T, width] = those of x [T, all]; or x [T, width] added to those of y [T, all]. 2 or 3 T width
// elements moved.
template <typename T>
void take_columns(const ColumnRange& shape, T* y, const T* x);
template <typename T>
void add_columns(const ColumnRange& shape, T* y, const T* x);

}  // namespace zplan::exec::cpu
