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

// Calls body(head, element) with the elements of all heads that are this thread's.
template <typename Body>
__device__ inline void for_elements_of_heads(std::int64_t heads, std::int64_t size,
                                             const Body& body) {
  for (std::int64_t i = threadIdx.x; i < heads * size; i += blockDim.x) body(i / size, i % size);
}

__device__ inline void make_turns(Turn* turns, const LatentHeadsShape& s, std::int64_t position,
                                  std::int64_t begin, int n, int direction) {
  if (s.theta > 0) return make_turns(turns, position, begin, n, s.rope, s.theta, direction);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    turns[i] = {1.0f, 0.0f};
}

// A pair of a rope, its halves r / 2 apart, turned on the way.
template <typename T>
__device__ inline void turn_pair(const T* from, T* to, std::int64_t half, const Turn& by) {
  const float x = widen(from[0]), y = widen(from[half]);
  to[0] = narrow<T>(x * by.cosine - y * by.sine);
  to[half] = narrow<T>(y * by.cosine + x * by.sine);
}

template <typename T>
__global__ void latent_heads_forward_kernel(LatentHeadsForward<T> x, LatentHeadsShape s) {
  __shared__ Turn turns[kPairs];
  const LatentPlaces p = places_of(s);
  const std::int64_t half = p.r / 2;
  for_rows(s.batch * s.sequence, [&](std::int64_t token) {
    T* queries = x.qkv + token * p.row;
    T* keys = queries + p.a * p.d;
    T* values = keys + p.a * p.d;
    const T* q = x.q + token * p.a * p.d;
    const T* kv = x.kv + token * p.a * (p.n + p.v);
    for_elements_of_heads(p.a, p.n, [&](std::int64_t head, std::int64_t i) {
      queries[head * p.d + i] = q[head * p.d + i];
      keys[head * p.d + i] = kv[head * (p.n + p.v) + i];
    });
    for_elements_of_heads(p.a, p.v, [&](std::int64_t head, std::int64_t i) {
      values[head * p.v + i] = kv[head * (p.n + p.v) + p.n + i];
    });
    for (std::int64_t begin = 0; begin < half; begin += kPairs) {
      const int n = static_cast<int>(half - begin < kPairs ? half - begin : kPairs);
      make_turns(turns, s, s.first + token % s.sequence, begin, n, 1);
      __syncthreads();
      for_elements_of_heads(p.a, n, [&](std::int64_t head, std::int64_t i) {
        const std::int64_t at = head * p.d + p.n + begin + i;
        turn_pair(q + at, queries + at, half, turns[i]);
        turn_pair(x.rope + token * p.r + begin + i, keys + at, half, turns[i]);
      });
      __syncthreads();  // the turns may be written again
    }
  });
}

template <typename T>
__global__ void latent_heads_backward_kernel(LatentHeadsBackward<T> x, LatentHeadsShape s) {
  __shared__ Turn turns[kPairs];
  const LatentPlaces p = places_of(s);
  const std::int64_t half = p.r / 2;
  for_rows(s.batch * s.sequence, [&](std::int64_t token) {
    const T* queries = x.dqkv + token * p.row;
    const T* keys = queries + p.a * p.d;
    const T* values = keys + p.a * p.d;
    T* dq = x.dq + token * p.a * p.d;
    T* dkv = x.dkv + token * p.a * (p.n + p.v);
    for_elements_of_heads(p.a, p.n, [&](std::int64_t head, std::int64_t i) {
      dq[head * p.d + i] = queries[head * p.d + i];
      dkv[head * (p.n + p.v) + i] = keys[head * p.d + i];
    });
    for_elements_of_heads(p.a, p.v, [&](std::int64_t head, std::int64_t i) {
      dkv[head * (p.n + p.v) + p.n + i] = values[head * p.v + i];
    });
    for (std::int64_t begin = 0; begin < half; begin += kPairs) {
      const int n = static_cast<int>(half - begin < kPairs ? half - begin : kPairs);
      make_turns(turns, s, s.first + token % s.sequence, begin, n, -1);
      __syncthreads();
      for_elements_of_heads(p.a, n, [&](std::int64_t head, std::int64_t i) {
        const std::int64_t at = head * p.d + p.n + begin + i;
        turn_pair(queries + at, dq + at, half, turns[i]);
      });
      for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        float first = 0, second = 0;
        for (std::int64_t head = 0; head < p.a; ++head) {
          const T* key = keys + head * p.d + p.n + begin + i;
          first += widen(key[0]);
          second += widen(key[half]);
        }
        const Turn by = turns[i];
        T* drope = x.drope + token * p.r + begin + i;
        const float before = x.accumulate_drope ? widen(drope[0]) : 0.0f;
        const float behind = x.accumulate_drope ? widen(drope[half]) : 0.0f;
        drope[0] = narrow<T>(before + (first * by.cosine - second * by.sine));
        drope[half] = narrow<T>(behind + (second * by.cosine + first * by.sine));
      }
      __syncthreads();  // the turns may be written again
    }
  });
}

}  // namespace zplan::exec::cuda
