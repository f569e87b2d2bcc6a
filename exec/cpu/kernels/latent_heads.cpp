#include "exec/cpu/kernels/latent_heads.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/rotation.h"

namespace zplan::exec::cpu {
namespace {

// Calls body(token, first pair, pairs, angles) for all pairs of the ropes of all tokens.
template <typename C, typename Body>
void for_ropes(const LatentHeadsShape& s, int direction, const Body& body) {
  const std::int64_t pairs = s.rope / 2;
  for_rows(s.sequence, s.batch * s.columns(), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t begin = 0; begin < pairs; begin += kPairs) {
      const std::int64_t n = std::min(kPairs, pairs - begin);
      const Rates rates(s.theta, s.rope, begin, n);
      for (std::int64_t position = from; position < to; ++position) {
        const Angles<C> angles(rates, s.first + position, n, direction);
        for (std::int64_t b = 0; b < s.batch; ++b)
          body(b * s.sequence + position, begin, n, angles);
      }
    }
  });
}

// Calls body(token) for every token.
template <typename Body>
void for_tokens(const LatentHeadsShape& s, const Body& body) {
  for_rows(s.batch * s.sequence, s.columns(), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t token = from; token < to; ++token) body(token);
  });
}

}  // namespace

template <typename T>
void latent_heads_forward(const LatentHeadsShape& s, const LatentHeadsForward<T>& x) {
  const std::int64_t a = s.heads, d = s.key(), half = s.rope / 2;
  for_tokens(s, [&](std::int64_t token) {
    T* queries = x.qkv + token * s.columns();
    T *keys = queries + a * d, *values = keys + a * d;
    for (std::int64_t head = 0; head < a; ++head) {
      const T* kv = x.kv + (token * a + head) * (s.nope + s.value);
      std::copy_n(x.q + (token * a + head) * d, s.nope, queries + head * d);
      std::copy_n(kv, s.nope, keys + head * d);
      std::copy_n(kv + s.nope, s.value, values + head * s.value);
    }
  });
  for_ropes<Compute<T>>(
      s, 1, [&](std::int64_t token, std::int64_t begin, std::int64_t n, const auto& angles) {
        const T* key = x.rope + token * s.rope + begin;
        T* queries = x.qkv + token * s.columns() + s.nope + begin;
        for (std::int64_t head = 0; head < a; ++head) {
          const T* query = x.q + (token * a + head) * d + s.nope + begin;
          T *to_query = queries + head * d, *to_key = queries + (a + head) * d;
          turn(query, query + half, to_query, to_query + half, n, angles);
          turn(key, key + half, to_key, to_key + half, n, angles);
        }
      });
}

template <typename T>
void latent_heads_backward(const LatentHeadsShape& s, const LatentHeadsBackward<T>& x) {
  using C = Compute<T>;
  const std::int64_t a = s.heads, d = s.key(), half = s.rope / 2;
  for_tokens(s, [&](std::int64_t token) {
    const T* queries = x.dqkv + token * s.columns();
    const T *keys = queries + a * d, *values = keys + a * d;
    for (std::int64_t head = 0; head < a; ++head) {
      T* kv = x.dkv + (token * a + head) * (s.nope + s.value);
      std::copy_n(queries + head * d, s.nope, x.dq + (token * a + head) * d);
      std::copy_n(keys + head * d, s.nope, kv);
      std::copy_n(values + head * s.value, s.value, kv + s.nope);
    }
  });
  for_ropes<C>(s, -1,
               [&](std::int64_t token, std::int64_t begin, std::int64_t n, const auto& angles) {
                 const T* queries = x.dqkv + token * s.columns() + s.nope + begin;
                 C first[kPairs] = {}, second[kPairs] = {};  // of keys, summed over heads
                 for (std::int64_t head = 0; head < a; ++head) {
                   const T *query = queries + head * d, *key = queries + (a + head) * d;
                   T* dq = x.dq + (token * a + head) * d + s.nope + begin;
                   turn(query, query + half, dq, dq + half, n, angles);
                   for (std::int64_t i = 0; i < n; ++i) {
                     first[i] += static_cast<C>(key[i]);
                     second[i] += static_cast<C>(key[half + i]);
                   }
                 }
                 turn(first, second, first, second, n, angles);
                 T* drope = x.drope + token * s.rope + begin;
                 for (std::int64_t i = 0; i < n; ++i) {
                   const C before = x.accumulate_drope ? static_cast<C>(drope[i]) : C{0};
                   const C behind = x.accumulate_drope ? static_cast<C>(drope[half + i]) : C{0};
                   drope[i] = static_cast<T>(before + first[i]);
                   drope[half + i] = static_cast<T>(behind + second[i]);
                 }
               });
}

#define ZPLAN_INSTANTIATE(T)                                                                    \
  template void latent_heads_forward<T>(const LatentHeadsShape&, const LatentHeadsForward<T>&); \
  template void latent_heads_backward<T>(const LatentHeadsShape&, const LatentHeadsBackward<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
