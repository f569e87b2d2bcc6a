// Self-attention without a stored s x s matrix, with as many key-value heads as query heads
// or fewer. [Dao22]
// qkv[b, s, c] holds the heads of q, k and v side by side, c = (a + g) d + g v: those of q and k
// have d elements, those of v v. Query head i uses key-value head i / (a / g). Which keys a query
// sees, and what its scores are, says exec/kernels/attention_rule.h: without more key i is visible
// to query j iff i <= j and scores are q k^T / sqrt(d).
// out = softmax(scores) v by online softmax over key blocks [Milakov18]; backward
// recomputes the probabilities from lse = log sum exp of the scaled scores. Arithmetic and sums in
// Compute<T>, results are rounded once. One thread owns one (batch, head), in backward one (batch,
// key-value head); its blocks run in a fixed order. The number of threads used is the least of
// OpenMP's, the owned heads, and what the scratch has room for. 16-bit elements need scratch for a
// head's whole result.
// Left out: dropout, padding masks.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"
#include "exec/cpu/kernels/scratch.h"
#include "exec/kernels/attention_rule.h"

namespace zplan::exec::cpu {

struct AttentionShape {
  std::int64_t batch, sequence, heads, kv_heads;
  std::int64_t head_dim;              // d
  std::int64_t value_dim = head_dim;  // v
  AttentionRule rule{};
  std::int64_t group() const { return heads / kv_heads; }  // query heads per key-value head
  std::int64_t columns() const { return (heads + kv_heads) * head_dim + kv_heads * value_dim; }
};

template <typename T>
struct AttentionForward {
  T* out;           // [b, s, a, v], overwritten
  Compute<T>* lse;  // [b, a, s], overwritten, kept for backward
  const T* qkv;     // [b, s, c]
  // [a, 2 s - 1] by key - query, added to scores (relative_positions.h); null: none
  const Compute<T>* bias = nullptr;
};

template <typename T>
struct AttentionBackward {
  T* dqkv;                // [b, s, c], overwritten
  const T* dout;          // [b, s, a, v]
  const T* out;           // [b, s, a, v]
  const Compute<T>* lse;  // [b, a, s]
  const T* qkv;           // [b, s, c]
  const Compute<T>* bias = nullptr;
  Compute<T>* dbias = nullptr;  // [a, 2 s - 1], added to, one sequence after the other
};

template <typename T>
Bytes attention_forward_scratch_bytes(const AttentionShape& shape, int threads);
template <typename T>
Bytes attention_backward_scratch_bytes(const AttentionShape& shape, int threads);

// 2 products: b a (d + v) s (s + 1) flop and about 10 b a s (s + 1) for exp (as 20); b s
// (c + a v) elements moved.
template <typename T>
void attention_forward(const AttentionShape& shape, const AttentionForward<T>& x, Scratch scratch);

// 5 products: b a (3 d + 2 v) s (s + 1) flop; 2 b s (c + a v) elements moved.
template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T>& x,
                        Scratch scratch);

}  // namespace zplan::exec::cpu
