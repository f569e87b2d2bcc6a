// Ways to cut attention into equal pieces that run one after the other, for kernels whose workspace
// grows with what they are given: over sequences, then over the key-value heads of one sequence, as
// each of those pieces is still attention on the same strides.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/cuda/kernels/attention_kernels.h"

namespace zplan::exec::cuda {

// One piece; batch and kv_heads of it divide those of the whole.
inline AttentionShape piece_of(const AttentionShape& whole, std::int64_t batch,
                               std::int64_t kv_heads) {
  return {batch,    whole.sequence, kv_heads * whole.group(),
          kv_heads, whole.head_dim, whole.value_dim};
}

// All of them, the largest first.
inline std::vector<AttentionShape> pieces_of(const AttentionShape& whole) {
  std::vector<AttentionShape> pieces;
  for (std::int64_t batch = whole.batch; batch >= 1; --batch)
    if (whole.batch % batch == 0) pieces.push_back(piece_of(whole, batch, whole.kv_heads));
  for (std::int64_t kv = whole.kv_heads - 1; kv >= 1; --kv)
    if (whole.kv_heads % kv == 0) pieces.push_back(piece_of(whole, 1, kv));
  return pieces;
}

// Elements before the piece that starts at this sequence and key-value head.
struct AttentionOffsets {
  std::int64_t query, key, value, out, lse;
};

inline AttentionOffsets offsets_of(const AttentionShape& whole, std::int64_t sequence,
                                   std::int64_t kv_head) {
  const std::int64_t head = kv_head * whole.group();
  const std::int64_t qkv = sequence * whole.sequence * whole.columns();
  return {.query = qkv + head * whole.head_dim,
          .key = qkv + whole.keys() + kv_head * whole.head_dim,
          .value = qkv + whole.values() + kv_head * whole.value_dim,
          .out = (sequence * whole.sequence * whole.heads + head) * whole.value_dim,
          .lse = (sequence * whole.heads + head) * whole.sequence};
}

}  // namespace zplan::exec::cuda
