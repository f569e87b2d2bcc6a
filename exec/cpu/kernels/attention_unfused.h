// Self-attention in separate products and a softmax, its probabilities [b, a, s, s] stored.
// Shapes and heads as in attention.h. [Vaswani17 Eq.1] The products run over the whole square,
// masked or not, one GemmCache product per (batch, head). Results are rounded to T after each step.
// Sinks, the last rule of softmax_forward, as in sinks.h. Left out: dropout, padding masks.
#pragma once

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/gemm.h"

namespace zplan::exec::cpu {

// Products that the caller prepares ahead of the first step.
GemmShape attention_scores_gemm(const AttentionShape& shape);
GemmShape attention_context_gradient_gemm(const AttentionShape& shape);  // dprobs
GemmShape attention_context_gemm(const AttentionShape& shape);
GemmShape attention_query_gradient_gemm(const AttentionShape& shape);
GemmShape attention_key_gradient_gemm(const AttentionShape& shape, bool accumulate);
GemmShape attention_value_gradient_gemm(const AttentionShape& shape, bool accumulate);

// scores[b, a, s, s] = q k^T / sqrt(divisor or d): 2 b a s^2 d flop
template <typename T>
void attention_scores(GemmCache& cache, const AttentionShape& shape, T* scores, const T* qkv,
                      Scratch scratch);
// Of a softmax beside the squares: so many heads of each sequence, which scores are seen and bent
// by distance, and what stands beside the scores of a head.
template <typename T>
struct SoftmaxRule {
  std::int64_t heads = 1;
  AttentionRule rule{};
  const T* sinks = nullptr;  // [a]; null: none
};
// Row i of each square becomes the softmax of what it sees, its first i + 1 elements, and zeros. In
// place. 24 b a s^2 flop (exp as 20).
template <typename T>
void softmax_forward(const SquareRows& shape, T* scores, const SoftmaxRule<T>& rule = {});
// out[b, s, a, v] = probs v: 2 b a s^2 v flop
template <typename T>
void attention_context(GemmCache& cache, const AttentionShape& shape, T* out, const T* probs,
                       const T* qkv, Scratch scratch);

// dprobs[b, a, s, s] = dout v^T: 2 b a s^2 v flop
template <typename T>
void attention_context_gradient(GemmCache& cache, const AttentionShape& shape, T* dprobs,
                                const T* dout, const T* qkv, Scratch scratch);
// dprobs becomes dscores = p (dp - sum p dp); hidden elements zero. 4 b a s^2 flop.
template <typename T>
void softmax_backward(const SquareRows& shape, T* dprobs, const T* probs,
                      const AttentionRule& rule = {});
// dsinks[a] (+)= - sums over the rows of a head of (1 - sum p) sum p dp. 3 b a s^2 flop.
template <typename T, typename G>
void sinks_gradient(const SquareRows& shape, std::int64_t heads, G* dsinks, const T* dprobs,
                    const T* probs, bool accumulate);

template <typename T>
struct AttentionScoresGradient {
  T* dqkv;           // [b, s, c], overwritten
  const T* dscores;  // [b, a, s, s]
  const T* probs;    // [b, a, s, s]
  const T* dout;     // [b, s, a, v]
  const T* qkv;      // [b, s, c]
};
// With the root of the divisor or d: dq = dscores k / root, dk = dscores^T q / root, dv = probs^T
// dout, the last two summed over the query heads that share them: 2 b a s^2 (2 d + v) flop
template <typename T>
void attention_scores_gradient(GemmCache& cache, const AttentionShape& shape,
                               const AttentionScoresGradient<T>& x, Scratch scratch);

}  // namespace zplan::exec::cpu
