// Causal self-attention of our own, without a stored s x s matrix, for every element type and head
// sizes up to 256. [Dao22] Definition and letters: exec/cpu/kernels/attention.h.
// Tiles of queries and keys stand in shared memory as float32; backward recomputes the
// probabilities from lse. dq is summed by tiles of queries, dk and dv by tiles of keys, each in a
// fixed order: results are the same bits every time. T: float, __half, __nv_bfloat16.
// Left out: tensor cores, dropout, padding masks, context parallelism.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstdint>

namespace zplan::exec::cuda {

struct AttentionShape {
  std::int64_t batch, sequence, heads, kv_heads;
  std::int64_t head_dim;              // d, of queries and keys
  std::int64_t value_dim = head_dim;  // v
  __host__ __device__ std::int64_t group() const { return heads / kv_heads; }
  // Of a row of qkv, and before its first key and its first value.
  __host__ __device__ std::int64_t columns() const { return values() + kv_heads * value_dim; }
  __host__ __device__ std::int64_t keys() const { return heads * head_dim; }
  __host__ __device__ std::int64_t values() const { return (heads + kv_heads) * head_dim; }
  // Of a tile, which has a head of either size.
  std::int64_t widest() const { return head_dim > value_dim ? head_dim : value_dim; }
  friend auto operator<=>(const AttentionShape&, const AttentionShape&) = default;
};
inline constexpr std::int64_t kMostHeadDim = 256;

template <typename T>
struct AttentionForward {
  T* out;        // [b, s, a, v], overwritten
  float* lse;    // [b, a, s] natural log of the sum of exp of the scaled scores, overwritten
  const T* qkv;  // [b, s, c]
};

template <typename T>
struct AttentionBackward {
  T* dqkv;           // [b, s, c], overwritten
  const T* dout;     // [b, s, a, v]
  const T* out;      // [b, s, a, v]
  const float* lse;  // [b, a, s]
  const T* qkv;      // [b, s, c]
  float* delta;      // [b, a, s] scratch: sum over v of dout out
};

constexpr std::int64_t attention_delta_bytes(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.sequence * static_cast<std::int64_t>(sizeof(float));
}

// 2 products: b a (d + v) s (s + 1) flop; at least b s (c + a v) elements moved.
template <typename T>
void launch_attention_forward(cudaStream_t stream, const AttentionShape& shape,
                              const AttentionForward<T>& x);

// 7 products, as the scores and the gradient of the probabilities are computed for dq and again for
// dk and dv: b a (4 d + 3 v) s (s + 1) flop; at least 2 b s (c + a v) elements moved.
template <typename T>
void launch_attention_backward(cudaStream_t stream, const AttentionShape& shape,
                               const AttentionBackward<T>& x);

}  // namespace zplan::exec::cuda
