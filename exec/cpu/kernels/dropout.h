// Dropout [Srivastava14]: y = x mask / (1 - rate). Whether an element is kept follows from what it
// is an element of, not from where it lies, so that however a step is cut the same are dropped:
//   key      (low seed, high seed ^ (2^31 + 256 layer + part)); seeds are below 2^63, so that no
//            key is one of random.h
//   counter  (row, column / 4, step), of whose four words column mod 4 picks one [Salmon11]
// An element is dropped where its word is below rate 2^32. Rows are those of tokens, 2^20 g + p of
// position p of sequence g of the step, or of scores, 2^20 (2^16 g + head) + query.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"
#include "planner/core/philox.h"

namespace zplan::exec::cpu {

struct DropoutDraws {
  PhiloxKey key{};
  std::uint32_t step = 0;
  double rate = 0;
};

// Which rows of the step the rows of an array are.
struct DropoutRows {
  std::int64_t rows, columns;     // of the array
  std::int64_t first_sequence;    // of the step
  std::int64_t inner, per_inner;  // rows per sequence, or heads and rows per head
  std::int64_t first_row = 0;     // of the array among those of the rank
  std::int64_t first_inner = 0;   // position of a sequence's first row, or first head
  bool of_heads = false;

  std::uint64_t number(std::int64_t row) const;  // of row i of the array
};

PhiloxKey dropout_key(std::uint64_t seed, std::int64_t layer, std::uint8_t part);

// Draws mask and writes y; 2 flop per element and the draws. x, mask, y [rows, columns]
template <typename T>
void dropout_forward(const DropoutRows& shape, const DropoutDraws& draws, T* y, std::uint8_t* mask,
                     const T* x);
// dx = dy mask / (1 - rate); 2 n flop, dy and mask read once.
template <typename T>
void dropout_backward(std::int64_t n, double rate, T* dx, const T* dy, const std::uint8_t* mask);
// out = x + dropout of (y + bias); bias [columns] may be null. 4 flop per element and the draws.
template <typename T>
void dropout_residual_add(const DropoutRows& shape, const DropoutDraws& draws, T* out,
                          std::uint8_t* mask, const T* x, const T* y, const T* bias);

}  // namespace zplan::exec::cpu
