#include "exec/cpu/kernels/attention_unfused.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "exec/cpu/kernels/attention_blocks.h"
#include "exec/cpu/kernels/softmax_statistics.h"

namespace zplan::exec::cpu {
namespace {

std::int64_t out_stride(const AttentionShape& s) { return s.heads * s.value_dim; }

// Of heads of so many elements.
GemmShape square_from_heads(const AttentionShape& s, std::int64_t size, std::int64_t a_stride) {
  return {.op = GemmOp::kNT,
          .m = s.sequence,
          .n = s.sequence,
          .k = size,
          .lda = a_stride,
          .ldb = s.columns()};
}

GemmShape heads_from_square(const AttentionShape& s, GemmOp op, std::int64_t size,
                            std::int64_t b_stride, std::int64_t c_stride, bool accumulate) {
  return {.op = op,
          .m = s.sequence,
          .n = size,
          .k = s.sequence,
          .accumulate = accumulate,
          .ldb = b_stride,
          .ldc = c_stride};
}

// Calls body(batch, head, offset of its square).
template <typename Body>
void for_squares(const AttentionShape& s, const Body& body) {
  for (std::int64_t i = 0; i < s.batch * s.heads; ++i)
    body(i / s.heads, i % s.heads, i * s.sequence * s.sequence);
}

// Queries and keys of all tokens times the scale of scores.
template <typename T>
void scale_queries_and_keys(const AttentionShape& s, T* dqkv) {
  using C = Compute<T>;
  const C scale = static_cast<C>(s.rule.scale(s.head_dim));
  const std::int64_t width = (s.heads + s.kv_heads) * s.head_dim;
  for_rows(s.batch * s.sequence, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      T* row = dqkv + t * s.columns();
      for (std::int64_t j = 0; j < width; ++j)
        row[j] = static_cast<T>(static_cast<C>(row[j]) * scale);
    }
  });
}

// What is added to the scores of a query: minus a slope times its distance to the key.
template <typename T>
void lower_by_distance(T* row, std::int64_t query, std::int64_t begin, std::int64_t end,
                       double slope) {
  using C = Compute<T>;
  for (std::int64_t j = begin; j < end; ++j)
    row[j] = static_cast<T>(static_cast<C>(row[j]) -
                            static_cast<C>(slope) * static_cast<C>(std::abs(query - j)));
}

// Elements [begin, end) of n; `sink`: one score more, of no value.
template <typename T>
void softmax_row(T* row, std::int64_t begin, std::int64_t end, std::int64_t n, const T* sink) {
  using C = Compute<T>;
  const SoftmaxStatistics<C> all = softmax_statistics(row + begin, end - begin);
  C most = all.most, sum = all.sum;
  if (sink != nullptr) {
    most = std::max(most, static_cast<C>(*sink));
    sum = sum * fast_exp(all.most - most) + fast_exp(static_cast<C>(*sink) - most);
  }
  const C inverse = static_cast<C>(1) / sum;
#pragma omp simd
  for (std::int64_t j = begin; j < end; ++j)
    row[j] = static_cast<T>(fast_exp(static_cast<C>(row[j]) - most) * inverse);
  std::fill(row, row + begin, static_cast<T>(0));
  std::fill(row + end, row + n, static_cast<T>(0));
}

template <typename T>
void softmax_gradient_row(T* slope, const T* probs, std::int64_t visible, std::int64_t n) {
  using C = Compute<T>;
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < visible; ++j)
    sum += static_cast<C>(probs[j]) * static_cast<C>(slope[j]);
#pragma omp simd
  for (std::int64_t j = 0; j < visible; ++j)
    slope[j] = static_cast<T>(static_cast<C>(probs[j]) * (static_cast<C>(slope[j]) - sum));
  std::fill(slope + visible, slope + n, static_cast<T>(0));
}

// Calls body(row of [b, a, s, s], its query).
template <typename Body>
void for_square_rows(const SquareRows& s, const Body& body) {
  for_rows(s.squares * s.sequence, s.sequence, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row, row % s.sequence);
  });
}

}  // namespace

GemmShape attention_scores_gemm(const AttentionShape& s) {
  return square_from_heads(s, s.head_dim, s.columns());
}
GemmShape attention_context_gradient_gemm(const AttentionShape& s) {
  return square_from_heads(s, s.value_dim, out_stride(s));
}
GemmShape attention_context_gemm(const AttentionShape& s) {
  return heads_from_square(s, GemmOp::kNN, s.value_dim, s.columns(), out_stride(s), false);
}
GemmShape attention_query_gradient_gemm(const AttentionShape& s) {
  return heads_from_square(s, GemmOp::kNN, s.head_dim, s.columns(), s.columns(), false);
}
GemmShape attention_key_gradient_gemm(const AttentionShape& s, bool accumulate) {
  return heads_from_square(s, GemmOp::kTN, s.head_dim, s.columns(), s.columns(), accumulate);
}
GemmShape attention_value_gradient_gemm(const AttentionShape& s, bool accumulate) {
  return heads_from_square(s, GemmOp::kTN, s.value_dim, out_stride(s), s.columns(), accumulate);
}

template <typename T>
void attention_scores(GemmCache& cache, const AttentionShape& s, T* scores, const T* qkv,
                      Scratch scratch) {
  using C = Compute<T>;
  const C scale = static_cast<C>(s.rule.scale(s.head_dim));
  for_squares(s, [&](std::int64_t batch, std::int64_t head, std::int64_t at) {
    const auto x = head_of_qkv(s, qkv, batch, head);
    T* square = scores + at;
    cache.run<T>(attention_scores_gemm(s), {x.q.data, x.k.data, square}, scratch);
    for_elements(s.sequence * s.sequence, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        square[i] = static_cast<T>(static_cast<C>(square[i]) * scale);
    });
  });
}

template <typename T>
void softmax_forward(const SquareRows& s, T* scores, const SoftmaxRule<T>& x) {
  for_square_rows(s, [&](std::int64_t row, std::int64_t query) {
    const std::int64_t head = row / s.sequence % x.heads;
    const std::int64_t begin = x.rule.begin(query), end = x.rule.end(query, s.sequence);
    T* own = scores + row * s.sequence;
    if (x.rule.slopes != 0) lower_by_distance(own, query, begin, end, x.rule.slope(head));
    softmax_row(own, begin, end, s.sequence, x.sinks == nullptr ? nullptr : x.sinks + head);
  });
}

template <typename T>
void attention_context(GemmCache& cache, const AttentionShape& s, T* out, const T* probs,
                       const T* qkv, Scratch scratch) {
  for_squares(s, [&](std::int64_t batch, std::int64_t head, std::int64_t at) {
    const auto x = head_of_qkv(s, qkv, batch, head);
    cache.run<T>(attention_context_gemm(s),
                 {probs + at, x.v.data, out_rows(s, out, batch, head).data}, scratch);
  });
}

template <typename T>
void attention_context_gradient(GemmCache& cache, const AttentionShape& s, T* dprobs, const T* dout,
                                const T* qkv, Scratch scratch) {
  for_squares(s, [&](std::int64_t batch, std::int64_t head, std::int64_t at) {
    const auto x = head_of_qkv(s, qkv, batch, head);
    cache.run<T>(attention_context_gradient_gemm(s),
                 {out_rows(s, dout, batch, head).data, x.v.data, dprobs + at}, scratch);
  });
}

template <typename T>
void softmax_backward(const SquareRows& s, T* dprobs, const T* probs, const AttentionRule& rule) {
  for_square_rows(s, [&](std::int64_t row, std::int64_t query) {
    softmax_gradient_row(dprobs + row * s.sequence, probs + row * s.sequence,
                         rule.end(query, s.sequence), s.sequence);
  });
}

template <typename T, typename G>
void sinks_gradient(const SquareRows& s, std::int64_t heads, G* dsinks, const T* dprobs,
                    const T* probs, bool accumulate) {
  using C = Compute<T>;
  const std::int64_t n = s.sequence;
  for_blocks(heads, 1, s.squares * n * n, [&](std::int64_t head, std::int64_t) {
    C sum = 0;
    for (std::int64_t square = head; square < s.squares; square += heads)
      for (std::int64_t at = square * n * n; at < (square + 1) * n * n; at += n) {
        C seen = 0, product = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          seen += static_cast<C>(probs[at + j]);
          product += static_cast<C>(probs[at + j]) * static_cast<C>(dprobs[at + j]);
        }
        sum += (1 - seen) * product;
      }
    dsinks[head] = static_cast<G>(accumulate ? static_cast<C>(dsinks[head]) - sum : -sum);
  });
}

template <typename T>
void attention_scores_gradient(GemmCache& cache, const AttentionShape& s,
                               const AttentionScoresGradient<T>& x, Scratch scratch) {
  for_squares(s, [&](std::int64_t batch, std::int64_t head, std::int64_t at) {
    const auto in = head_of_qkv(s, x.qkv, batch, head);
    const auto out = head_of_qkv(s, x.dqkv, batch, head);
    const T* dout = out_rows(s, x.dout, batch, head).data;
    const bool adds = head % s.group() != 0;
    cache.run<T>(attention_query_gradient_gemm(s), {x.dscores + at, in.k.data, out.q.data},
                 scratch);
    cache.run<T>(attention_key_gradient_gemm(s, adds), {x.dscores + at, in.q.data, out.k.data},
                 scratch);
    cache.run<T>(attention_value_gradient_gemm(s, adds), {x.probs + at, dout, out.v.data}, scratch);
  });
  scale_queries_and_keys(s, x.dqkv);
}

#define ZPLAN_INSTANTIATE(T)                                                                    \
  template void attention_scores<T>(GemmCache&, const AttentionShape&, T*, const T*, Scratch);  \
  template void softmax_forward<T>(const SquareRows&, T*, const SoftmaxRule<T>&);               \
  template void attention_context<T>(GemmCache&, const AttentionShape&, T*, const T*, const T*, \
                                     Scratch);                                                  \
  template void attention_context_gradient<T>(GemmCache&, const AttentionShape&, T*, const T*,  \
                                              const T*, Scratch);                               \
  template void softmax_backward<T>(const SquareRows&, T*, const T*, const AttentionRule&);     \
  template void attention_scores_gradient<T>(GemmCache&, const AttentionShape&,                 \
                                             const AttentionScoresGradient<T>&, Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G) \
  template void sinks_gradient<T, G>(const SquareRows&, std::int64_t, G*, const T*, const T*, bool);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
