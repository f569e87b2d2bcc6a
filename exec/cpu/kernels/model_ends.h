// What models of masked tokens have before their layers and after them [Devlin19]: a vector of each
// segment of a sequence, and a bias of the logits.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"

namespace zplan::exec::cpu {

// Tokens [begin, begin + s) of so many sequences; each segment has `length` tokens of a sequence.
struct SegmentShape {
  std::int64_t batch, sequence, hidden, segments, length, begin;
  std::int64_t of(std::int64_t token) const { return (begin + token) / length; }
};

// x[b, s, h] += rows[n, h] by segment. b s h flop.
template <typename T>
void segment_forward(const SegmentShape& shape, T* x, const T* rows);
// drows[n, h] (+)= sums of dx[b, s, h] over the tokens of each segment. b s h flop.
template <typename T, typename G = T>
void segment_backward(const SegmentShape& shape, G* drows, const T* dx, bool accumulate);

// x[T, n] += bias[n]. T n flop.
template <typename T>
void add_bias(std::int64_t rows, std::int64_t columns, T* x, const T* bias);

}  // namespace zplan::exec::cpu
