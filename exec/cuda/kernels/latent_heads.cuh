// Device code of latent_heads.h.
#pragma once

#include "exec/cuda/kernels/latent_heads.h"
#include "exec/cuda/kernels/rope.cuh"

namespace zplan::exec::cuda {

// The sizes of latent_heads.h, as the device needs them.
struct LatentPlaces {
  std::int64_t a, n, r, v, d, row;  // row: of qkv
};

__device__ inline LatentPlaces places_of(const LatentHeadsShape& s) {
  const std::int64_t d = s.nope + s.rope;
  return {s.heads, s.nope, s.rope, s.value, d, s.heads * (2 * d + s.value)};
}

// Calls body(head, element) with the packs of so many elements of each head that are this thread's.
template <int kWidth, typename Body>
__device__ inline void for_packs_of_heads(std::int64_t heads, std::int64_t size, const Body& body) {
  const auto packs = static_cast<unsigned>(size / kWidth);
  const auto all = static_cast<unsigned>(heads) * packs;
  for (unsigned i = threadIdx.x; i < all; i += blockDim.x)
    body(static_cast<std::int64_t>(i / packs), static_cast<std::int64_t>(i % packs * kWidth));
}

__device__ inline void make_turns(Turn* turns, const LatentHeadsShape& s, std::int64_t position,
                                  std::int64_t begin, int n, int direction) {
  if (s.theta > 0) return make_turns(turns, position, begin, n, s.rope, s.theta, direction);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    turns[i] = {1.0f, 0.0f};
}

// Calls body(token) for those of all sequences at one position.
template <typename Body>
__device__ inline void for_batch(const LatentHeadsShape& s, std::int64_t position,
                                 const Body& body) {
  for (std::int64_t b = 0; b < s.batch; ++b) body(b * s.sequence + position);
}

// Calls body(begin, n) with pairs [begin, begin + n) of the rope, whose turns at a position it
// makes.
template <typename Body>
__device__ inline void for_turns(Turn* turns, const LatentHeadsShape& s, std::int64_t position,
                                 int direction, const Body& body) {
  const std::int64_t half = s.rope / 2;
  for (std::int64_t begin = 0; begin < half; begin += kPairs) {
    const int n = static_cast<int>(half - begin < kPairs ? half - begin : kPairs);
    make_turns(turns, s, s.first + position, begin, n, direction);
    __syncthreads();
    body(begin, n);
    __syncthreads();  // the turns may be written again
  }
}

// kWidth divides n, r / 2 and v.
template <typename T, int kWidth>
__global__ void latent_heads_forward_kernel(LatentHeadsForward<T> x, LatentHeadsShape s) {
  __shared__ Turn turns[kPairs];
  const LatentPlaces p = places_of(s);
  const std::int64_t half = p.r / 2, e = p.n + p.v;
  for_rows(s.sequence, [&](std::int64_t position) {
    for_batch(s, position, [&](std::int64_t token) {
      T* queries = x.qkv + token * p.row;
      T *keys = queries + p.a * p.d, *values = keys + p.a * p.d;
      const T *q = x.q + token * p.a * p.d, *kv = x.kv + token * p.a * e;
      for_packs_of_heads<kWidth>(p.a, p.n, [&](std::int64_t head, std::int64_t i) {
        const auto query = load_bits<kWidth>(q + head * p.d + i);
        const auto key = load_bits<kWidth>(kv + head * e + i);
        store_bits<kWidth>(queries + head * p.d + i, query);
        store_bits<kWidth>(keys + head * p.d + i, key);
      });
      for_packs_of_heads<kWidth>(p.a, p.v, [&](std::int64_t head, std::int64_t i) {
        store_bits<kWidth>(values + head * p.v + i, load_bits<kWidth>(kv + head * e + p.n + i));
      });
    });
    for_turns(turns, s, position, 1, [&](std::int64_t begin, int n) {
      for_batch(s, position, [&](std::int64_t token) {
        T* queries = x.qkv + token * p.row;
        const T *q = x.q + token * p.a * p.d, *rope = x.rope + token * p.r + begin;
        for_packs_of_heads<kWidth>(p.a, n, [&](std::int64_t head, std::int64_t i) {
          const std::int64_t at = head * p.d + p.n + begin + i;
          turn_pairs<kWidth>(q + at, queries + at, half, turns + i);
          turn_pairs<kWidth>(rope + i, queries + p.a * p.d + at, half, turns + i);
        });
      });
    });
  });
}

// A pair of the gradient of the rope that heads share, before it is turned back.
struct RopeSum {
  float first, second;
};

// Of n pairs, the first at `keys`, over all heads: parts of them first, each by a thread.
template <typename T>
__device__ inline void sum_of_heads(RopeSum* sums, const T* keys, const LatentPlaces& p, int n) {
  const int threads = static_cast<int>(blockDim.x), parts = threads < n ? 1 : threads / n;
  for (int i = static_cast<int>(threadIdx.x); i < parts * n; i += threads) {
    RopeSum sum{0, 0};
    const T* key = keys + i % n;
#pragma unroll 4
    for (int head = i / n; head < static_cast<int>(p.a); head += parts) {
      sum.first += widen(key[head * p.d]);
      sum.second += widen(key[head * p.d + p.r / 2]);
    }
    sums[i] = sum;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < n; i += threads) {
    RopeSum sum = sums[i];
    for (int part = 1; part < parts; ++part) {
      sum.first += sums[part * n + i].first;
      sum.second += sums[part * n + i].second;
    }
    sums[i] = sum;
  }
}

// drope of n pairs, the first at `drope`; the sums are each read by the thread that wrote them.
template <typename T>
__device__ inline void store_rope(T* drope, const RopeSum* sums, const Turn* turns, int n,
                                  std::int64_t half, bool accumulate) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    const auto [first, second] = sums[i];
    const Turn by = turns[i];
    const float before = accumulate ? widen(drope[i]) : 0.0f;
    const float behind = accumulate ? widen(drope[half + i]) : 0.0f;
    drope[i] = narrow<T>(before + (first * by.cosine - second * by.sine));
    drope[half + i] = narrow<T>(behind + (second * by.cosine + first * by.sine));
  }
}

// A block has at most kPairs threads; kWidth divides n, r / 2 and v.
template <typename T, int kWidth>
__global__ void latent_heads_backward_kernel(LatentHeadsBackward<T> x, LatentHeadsShape s) {
  __shared__ Turn turns[kPairs];
  __shared__ RopeSum sums[kPairs];
  const LatentPlaces p = places_of(s);
  const std::int64_t half = p.r / 2, e = p.n + p.v;
  for_rows(s.sequence, [&](std::int64_t position) {
    for_batch(s, position, [&](std::int64_t token) {
      const T* queries = x.dqkv + token * p.row;
      const T *keys = queries + p.a * p.d, *values = keys + p.a * p.d;
      T *dq = x.dq + token * p.a * p.d, *dkv = x.dkv + token * p.a * e;
      for_packs_of_heads<kWidth>(p.a, p.n, [&](std::int64_t head, std::int64_t i) {
        const auto query = load_bits<kWidth>(queries + head * p.d + i);
        const auto key = load_bits<kWidth>(keys + head * p.d + i);
        store_bits<kWidth>(dq + head * p.d + i, query);
        store_bits<kWidth>(dkv + head * e + i, key);
      });
      for_packs_of_heads<kWidth>(p.a, p.v, [&](std::int64_t head, std::int64_t i) {
        store_bits<kWidth>(dkv + head * e + p.n + i, load_bits<kWidth>(values + head * p.v + i));
      });
    });
    for_turns(turns, s, position, -1, [&](std::int64_t begin, int n) {
      for_batch(s, position, [&](std::int64_t token) {
        const T* queries = x.dqkv + token * p.row;
        for_packs_of_heads<kWidth>(p.a, n, [&](std::int64_t head, std::int64_t i) {
          const std::int64_t at = head * p.d + p.n + begin + i;
          turn_pairs<kWidth>(queries + at, x.dq + token * p.a * p.d + at, half, turns + i);
        });
        sum_of_heads(sums, queries + p.a * p.d + p.n + begin, p, n);
        store_rope(x.drope + token * p.r + begin, sums, turns, n, half, x.accumulate_drope);
        __syncthreads();  // the sums may be written again
      });
    });
  });
}

}  // namespace zplan::exec::cuda
