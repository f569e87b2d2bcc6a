// Causal multi-head self-attention without a stored s x s matrix. [Dao22]
// qkv[b, s, 3 h] holds q | k | v, each [a, d] with h = a d. Key i is visible to query j iff i <= j.
// out = softmax(q k^T / sqrt(d)) v by online softmax over key blocks [Milakov18]; backward
// recomputes the probabilities from lse = log sum exp of the scaled scores. One thread owns one
// (batch, head); its blocks run in a fixed order. The number of threads used is the least of
// OpenMP's, b a, and what the scratch has room for. Left out: dropout, grouped queries, padding
// masks, context parallelism.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/scratch.h"

namespace zplan::exec::cpu {

struct AttentionShape {
  std::int64_t batch, sequence, heads, head_dim;
};

template <typename T>
struct AttentionForward {
  T* out;        // [b, s, h], overwritten
  T* lse;        // [b, a, s], overwritten, kept for backward
  const T* qkv;  // [b, s, 3 h]
};

template <typename T>
struct AttentionBackward {
  T* dqkv;        // [b, s, 3 h], overwritten
  const T* dout;  // [b, s, h]
  const T* out;   // [b, s, h]
  const T* lse;   // [b, a, s]
  const T* qkv;   // [b, s, 3 h]
};

template <typename T>
Bytes attention_forward_scratch_bytes(const AttentionShape& shape, int threads);
template <typename T>
Bytes attention_backward_scratch_bytes(const AttentionShape& shape, int threads);

// 2 products: 2 b a d s (s + 1) flop and about 10 b a s (s + 1) for exp (as 20); 4 b s h elements
// moved.
template <typename T>
void attention_forward(const AttentionShape& shape, const AttentionForward<T>& x, Scratch scratch);

// 5 products: 5 b a d s (s + 1) flop; 8 b s h elements moved.
template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T>& x,
                        Scratch scratch);

}  // namespace zplan::exec::cpu
