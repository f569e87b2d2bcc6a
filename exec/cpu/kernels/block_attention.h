// Attention to a block of keys and values that another rank of a ring brings [Liu23 sec 3], merged
// with what other blocks have given. Shapes, scratch, threads and arithmetic as in attention.h,
// whose scratch is enough. Each rank has two stretches of s / 2 tokens of a sequence. Where the
// block is of an earlier rank, its first stretch is before both of the queries' and its second
// behind both; where it is of a later one, both are before the queries' second stretch and behind
// their first.
#pragma once

#include "exec/cpu/kernels/attention.h"

namespace zplan::exec::cpu {

template <typename T>
struct BlockAttentionForward {
  Compute<T>* out;  // [b, s, a, v], of all blocks so far
  Compute<T>* lse;  // [b, a, s], likewise
  const T* qkv;     // [b, s, c], of which the queries are read
  const T* kv;      // [b, s, g (d + v)], keys and values side by side
  bool earlier;
};

template <typename T>
struct BlockAttentionBackward {
  T* dqkv;                // [b, s, c], to whose queries is added
  T* dkv;                 // [b, s, g (d + v)], overwritten
  const T* dout;          // [b, s, a, v]
  const T* out;           // [b, s, a, v], of all blocks
  const Compute<T>* lse;  // [b, a, s], likewise
  const T* qkv;
  const T* kv;
  bool earlier;
};

// b a (d + v) s^2 flop.
template <typename T>
void block_attention_forward(const AttentionShape& shape, const BlockAttentionForward<T>& x,
                             Scratch scratch);

// b a (3 d + 2 v) s^2 flop.
template <typename T>
void block_attention_backward(const AttentionShape& shape, const BlockAttentionBackward<T>& x,
                              Scratch scratch);

}  // namespace zplan::exec::cpu
