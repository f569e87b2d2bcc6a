#include "exec/cpu/kernels/chosen_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exec/cpu/kernels/attention_blocks.h"

namespace zplan::exec::cpu {
namespace {

template <typename C, typename A, typename B>
C dot(const A* a, const B* b, std::int64_t n) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t p = 0; p < n; ++p) sum += static_cast<C>(a[p]) * static_cast<C>(b[p]);
  return sum;
}

// sum += factor x
template <typename C, typename X>
void add_scaled(C* sum, C factor, const X* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t p = 0; p < n; ++p) sum[p] += factor * static_cast<C>(x[p]);
}

// The keys of a query, without the places that have none.
struct Keys {
  const std::int32_t* chosen;
  std::int64_t count;

  Keys(const std::int32_t* all, std::int64_t query, std::int64_t most)
      : chosen(all + query * most),
        count(std::find(chosen, chosen + most, std::int32_t{-1}) - chosen) {}
};

template <typename C>
C score_scale(const IndexShape& s) {
  return 1 / std::sqrt(static_cast<C>(s.heads * s.head_size));
}

// Returns the score of query `t` of all sequences and of a key, a row of all of them.
template <typename T, typename Call>
Compute<T> index_score(const IndexShape& s, const Call& x, std::int64_t t, std::int64_t key) {
  using C = Compute<T>;
  const std::int64_t e = s.head_size;
  C score = 0;
  for (std::int64_t n = 0; n < s.heads; ++n) {
    const C product = dot<C>(x.q + (t * s.heads + n) * e, x.k + key * e, e);
    if (product > 0) score += static_cast<C>(x.weights[t * s.heads + n]) * product;
  }
  return score;
}

template <typename T>
struct ChoiceScratch {
  Compute<T>* scores;   // [s]
  std::int32_t* order;  // [s]
};
template <typename T>
std::int64_t choice_bytes(const IndexShape& s) {
  return aligned_bytes<Compute<T>>(s.sequence) + aligned_bytes<std::int32_t>(s.sequence);
}

template <typename T>
void choose_of_query(const IndexShape& s, const KeyChoice<T>& x, std::int64_t t,
                     const ChoiceScratch<T>& w) {
  const std::int64_t own = t % s.sequence, first = t - own;
  const std::int64_t count = std::min(own + 1, s.keys);
  for (std::int64_t j = 0; j <= own; ++j) w.scores[j] = index_score<T>(s, x, t, first + j);
  std::iota(w.order, w.order + own + 1, 0);
  std::nth_element(w.order, w.order + count - 1, w.order + own + 1,
                   [&](std::int32_t a, std::int32_t b) {
                     return w.scores[a] != w.scores[b] ? w.scores[a] > w.scores[b] : a < b;
                   });
  std::sort(w.order, w.order + count);
  std::int32_t* chosen = x.chosen + t * s.keys;
  std::copy_n(w.order, count, chosen);
  std::fill(chosen + count, chosen + s.keys, std::int32_t{-1});
}

template <typename T>
struct IndexGradientScratch {
  Compute<T>* dk;       // [s, e]
  Compute<T>* dscores;  // [i]
  Compute<T>* dq;       // [e]
};
template <typename T>
std::int64_t index_gradient_bytes(const IndexShape& s) {
  using C = Compute<T>;
  return aligned_bytes<C>(s.sequence * s.head_size) + aligned_bytes<C>(s.keys) +
         aligned_bytes<C>(s.head_size);
}

// Turns the scores of a query's keys into their gradient: softmax minus p, a rank's part of both.
template <typename T>
void score_gradients(const IndexShape& s, const KeyChoiceBackward<T, Compute<T>>& x, std::int64_t t,
                     const Keys& keys, Compute<T>* dscores) {
  using C = Compute<T>;
  const C scale = score_scale<C>(s);
  const std::int64_t first = t - t % s.sequence;
  C most = -std::numeric_limits<C>::infinity(), sum = 0;
  for (std::int64_t i = 0; i < keys.count; ++i) {
    dscores[i] = scale * index_score<T>(s, x, t, first + keys.chosen[i]);
    most = std::max(most, dscores[i]);
  }
  for (std::int64_t i = 0; i < keys.count; ++i) {
    dscores[i] = std::exp(dscores[i] - most);
    sum += dscores[i];
  }
  const C* given = x.given + t * s.keys;
  for (std::int64_t i = 0; i < keys.count; ++i)
    dscores[i] =
        static_cast<C>(x.scale) * scale *
        (dscores[i] / (sum * static_cast<C>(x.ranks)) - given[i] / static_cast<C>(x.heads));
}

template <typename T>
void index_gradients_of_query(const IndexShape& s, const KeyChoiceBackward<T, Compute<T>>& x,
                              std::int64_t t, const IndexGradientScratch<T>& w) {
  using C = Compute<T>;
  const std::int64_t e = s.head_size, first = t - t % s.sequence;
  const Keys keys(x.chosen, t, s.keys);
  score_gradients(s, x, t, keys, w.dscores);
  for (std::int64_t n = 0; n < s.heads; ++n) {
    const std::int64_t at = t * s.heads + n;
    const T* q = x.q + at * e;
    const C weight = static_cast<C>(x.weights[at]);
    C dweight = 0;
    std::fill_n(w.dq, e, C{0});
    for (std::int64_t i = 0; i < keys.count; ++i) {
      const T* k = x.k + (first + keys.chosen[i]) * e;
      const C product = dot<C>(q, k, e);
      if (product <= 0) continue;
      dweight += w.dscores[i] * product;
      const C slope = w.dscores[i] * weight;
      add_scaled(w.dq, slope, k, e);
      add_scaled(w.dk + keys.chosen[i] * e, slope, q, e);
    }
    x.dweights[at] = static_cast<T>(dweight);
    for (std::int64_t p = 0; p < e; ++p) x.dq[at * e + p] = static_cast<T>(w.dq[p]);
  }
}

// The softmax of a query over its keys, in place of the scores; returns its log-sum-exp.
template <typename C>
C softmax_of(C* scores, std::int64_t count) {
  const C most = *std::max_element(scores, scores + count);
  C sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = std::exp(scores[i] - most);
    sum += scores[i];
  }
  for (std::int64_t i = 0; i < count; ++i) scores[i] /= sum;
  return most + std::log(sum);
}

template <typename T>
void chosen_head(const AttentionShape& s, const ChosenForward<T, Compute<T>>& x, std::int64_t index,
                 Scratch scratch) {
  using C = Compute<T>;
  const std::int64_t batch = index / s.heads, head = index % s.heads;
  const auto of = head_of_qkv(s, x.qkv, batch, head);
  const Rows<T> out = out_rows(s, x.out, batch, head);
  const C scale = 1 / std::sqrt(static_cast<C>(s.head_dim));
  ScratchCutter cutter(scratch);
  C* shares = cutter.take<C>(x.keys);
  C* sum = cutter.take<C>(s.value_dim);
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const Keys keys(x.chosen, batch * s.sequence + t, x.keys);
    for (std::int64_t i = 0; i < keys.count; ++i)
      shares[i] = scale * dot<C>(of.q.from(t).data, of.k.from(keys.chosen[i]).data, s.head_dim);
    x.lse[index * s.sequence + t] = softmax_of(shares, keys.count);
    std::fill_n(sum, s.value_dim, C{0});
    for (std::int64_t i = 0; i < keys.count; ++i)
      add_scaled(sum, shares[i], of.v.from(keys.chosen[i]).data, s.value_dim);
    store_block(out.from(t), 1, s.value_dim, sum);
  }
}

template <typename C>
struct ChosenGradientScratch {
  C *dk, *dv;  // [s, d], [s, v], of a head of keys
  C* dq;       // [d]
};
template <typename T>
std::int64_t chosen_gradient_bytes(const AttentionShape& s) {
  using C = Compute<T>;
  return aligned_bytes<C>(s.sequence * s.head_dim) + aligned_bytes<C>(s.sequence * s.value_dim) +
         aligned_bytes<C>(s.head_dim);
}

// Adds to dk and dv, and writes dq.
template <typename T>
void chosen_gradients_of_query(const AttentionShape& s, const ChosenBackward<T, Compute<T>>& x,
                               std::int64_t batch, std::int64_t head, std::int64_t t,
                               const ChosenGradientScratch<Compute<T>>& w) {
  using C = Compute<T>;
  const std::int64_t d = s.head_dim, v = s.value_dim;
  const auto of = head_of_qkv(s, x.qkv, batch, head);
  const T* dout = out_rows(s, x.dout, batch, head).from(t).data;
  const T* q = of.q.from(t).data;
  const C scale = 1 / std::sqrt(static_cast<C>(d));
  const C delta = dot<C>(dout, out_rows(s, x.out, batch, head).from(t).data, v);
  const C lse = x.lse[(batch * s.heads + head) * s.sequence + t];
  const Keys keys(x.chosen, batch * s.sequence + t, x.keys);
  std::fill_n(w.dq, d, C{0});
  for (std::int64_t i = 0; i < keys.count; ++i) {
    const std::int64_t key = keys.chosen[i];
    const T* k = of.k.from(key).data;
    const C share = std::exp(scale * dot<C>(q, k, d) - lse);
    const C slope = scale * share * (dot<C>(dout, of.v.from(key).data, v) - delta);
    add_scaled(w.dv + key * v, share, dout, v);
    add_scaled(w.dk + key * d, slope, q, d);
    add_scaled(w.dq, slope, k, d);
  }
  store_block(head_of_qkv(s, x.dqkv, batch, head).q.from(t), 1, d, w.dq);
}

template <typename T>
void chosen_group(const AttentionShape& s, const ChosenBackward<T, Compute<T>>& x,
                  std::int64_t index, Scratch scratch) {
  using C = Compute<T>;
  const std::int64_t n = s.sequence, d = s.head_dim, v = s.value_dim;
  const std::int64_t batch = index / s.kv_heads, first = index % s.kv_heads * s.group();
  ScratchCutter cutter(scratch);
  const ChosenGradientScratch<C> w{cutter.take<C>(n * d), cutter.take<C>(n * v), cutter.take<C>(d)};
  std::fill_n(w.dk, n * d, C{0});
  std::fill_n(w.dv, n * v, C{0});
  for (std::int64_t head = first; head < first + s.group(); ++head)
    for (std::int64_t t = 0; t < n; ++t) chosen_gradients_of_query(s, x, batch, head, t, w);
  const auto gradient = head_of_qkv(s, x.dqkv, batch, first);
  store_block(gradient.k, n, d, w.dk);
  store_block(gradient.v, n, v, w.dv);
}

template <typename T>
void shares_of_query(const AttentionShape& s, const ChosenShares<T, Compute<T>>& x,
                     std::int64_t t) {
  using C = Compute<T>;
  const std::int64_t batch = t / s.sequence, own = t % s.sequence;
  const C scale = 1 / std::sqrt(static_cast<C>(s.head_dim));
  const Keys keys(x.chosen, t, x.keys);
  C* given = x.given + t * x.keys;
  if (!x.adds) std::fill_n(given, x.keys, C{0});
  for (std::int64_t head = 0; head < s.heads; ++head) {
    const auto of = head_of_qkv(s, x.qkv, batch, head);
    const C lse = x.lse[(batch * s.heads + head) * s.sequence + own];
    for (std::int64_t i = 0; i < keys.count; ++i) {
      const T* k = of.k.from(keys.chosen[i]).data;
      given[i] += std::exp(scale * dot<C>(of.q.from(own).data, k, s.head_dim) - lse);
    }
  }
}

}  // namespace

template <typename T>
Bytes choose_keys_scratch_bytes(const IndexShape& shape, int threads) {
  return {choice_bytes<T>(shape) * threads};
}

template <typename T>
void choose_keys(const IndexShape& s, const KeyChoice<T>& x, Scratch scratch) {
  for_heads(
      s.batch * s.sequence, s.sequence * s.heads * s.head_size / 2, scratch, choice_bytes<T>(s),
      [&](std::int64_t t, Scratch piece) {
        ScratchCutter cutter(piece);
        Compute<T>* scores = cutter.take<Compute<T>>(s.sequence);
        choose_of_query(s, x, t, ChoiceScratch<T>{scores, cutter.take<std::int32_t>(s.sequence)});
      });
}

template <typename T>
Bytes choose_keys_backward_scratch_bytes(const IndexShape& shape, int threads) {
  return {index_gradient_bytes<T>(shape) * threads};
}

template <typename T>
void choose_keys_backward(const IndexShape& s, const KeyChoiceBackward<T, Compute<T>>& x,
                          Scratch scratch) {
  using C = Compute<T>;
  const std::int64_t n = s.sequence, e = s.head_size;
  for_heads(s.batch, n * s.keys * s.heads * e, scratch, index_gradient_bytes<T>(s),
            [&](std::int64_t batch, Scratch piece) {
              ScratchCutter cutter(piece);
              const IndexGradientScratch<T> w{cutter.take<C>(n * e), cutter.take<C>(s.keys),
                                              cutter.take<C>(e)};
              std::fill_n(w.dk, n * e, C{0});
              for (std::int64_t t = batch * n; t < (batch + 1) * n; ++t)
                index_gradients_of_query(s, x, t, w);
              store_block(Rows<T>{x.dk + batch * n * e, e}, n, e, w.dk);
            });
}

template <typename T>
Bytes chosen_forward_scratch_bytes(const AttentionShape& s, std::int64_t keys, int threads) {
  return {(aligned_bytes<Compute<T>>(keys) + aligned_bytes<Compute<T>>(s.value_dim)) * threads};
}

template <typename T>
void chosen_attention_forward(const AttentionShape& s, const ChosenForward<T, Compute<T>>& x,
                              Scratch scratch) {
  for_heads(s.batch * s.heads, head_work(s), scratch,
            chosen_forward_scratch_bytes<T>(s, x.keys, 1).value,
            [&](std::int64_t index, Scratch piece) { chosen_head(s, x, index, piece); });
}

template <typename T>
Bytes chosen_backward_scratch_bytes(const AttentionShape& s, int threads) {
  return {chosen_gradient_bytes<T>(s) * threads};
}

template <typename T>
void chosen_attention_backward(const AttentionShape& s, const ChosenBackward<T, Compute<T>>& x,
                               Scratch scratch) {
  for_heads(s.batch * s.kv_heads, s.group() * head_work(s), scratch, chosen_gradient_bytes<T>(s),
            [&](std::int64_t index, Scratch piece) { chosen_group(s, x, index, piece); });
}

template <typename T>
void chosen_shares(const AttentionShape& s, const ChosenShares<T, Compute<T>>& x) {
  for_rows(s.batch * s.sequence, x.keys * s.heads * s.head_dim,
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t t = begin; t < end; ++t) shares_of_query(s, x, t);
           });
}

#define ZPLAN_INSTANTIATE(T)                                                                 \
  template Bytes choose_keys_scratch_bytes<T>(const IndexShape&, int);                       \
  template void choose_keys<T>(const IndexShape&, const KeyChoice<T>&, Scratch);             \
  template Bytes choose_keys_backward_scratch_bytes<T>(const IndexShape&, int);              \
  template void choose_keys_backward<T>(const IndexShape&,                                   \
                                        const KeyChoiceBackward<T, Compute<T>>&, Scratch);   \
  template Bytes chosen_forward_scratch_bytes<T>(const AttentionShape&, std::int64_t, int);  \
  template void chosen_attention_forward<T>(const AttentionShape&,                           \
                                            const ChosenForward<T, Compute<T>>&, Scratch);   \
  template Bytes chosen_backward_scratch_bytes<T>(const AttentionShape&, int);               \
  template void chosen_attention_backward<T>(const AttentionShape&,                          \
                                             const ChosenBackward<T, Compute<T>>&, Scratch); \
  template void chosen_shares<T>(const AttentionShape&, const ChosenShares<T, Compute<T>>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
