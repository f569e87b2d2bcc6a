// What the fused attention kernels of a set for CUDA take and need: those of cuDNN, which has no
// kernel for every head. The figures are what cuDNN 9.19 and 9.28 answered when asked for plans on
// H100, A100 and B200 (tests/crosscheck/cudnn); later devices are assumed to be like B200.
#pragma once

#include <cstdint>

#include "planner/core/units.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

// Query heads and key-value heads of the rank; head_size: the larger one of keys and of values.
struct FusedAttention {
  std::int64_t batch, sequence, heads, kv_heads, head_size;
};

// Whether there is a tensor-core kernel for the backward pass of heads of this size; else one of
// the executor's own runs, on the cores for vectors.
bool has_tensor_cores(const KernelSet& set, std::int64_t head_size);

// Whether fused attention of the set runs on the executor's own kernels, on the cores for vectors:
// heads that cuDNN has no kernel for, float32, and devices before compute capability 8.0.
bool runs_on_vectors(const KernelSet& set, std::int64_t head_size);

// Larger heads have no kernel of the executor's own, nor of FlashAttention [Dao23], which other
// software takes: their scores have to be stored.
inline constexpr std::int64_t kLargestFusedHead = 256;

// Bytes with which the backward pass runs in one piece: dq in float32, twice before compute
// capability 9.0, a float32 for each query, where heads share keys dk and dv of each query head in
// 16 bits, and a little more.
Bytes fused_backward_whole(const FusedAttention& attention, const KernelSet& set);

// Bytes declared for it: the whole as long as that is little, else as much as the smallest piece
// needs, the query heads of one key-value head of one sequence.
Bytes fused_backward_scratch(const FusedAttention& attention, const KernelSet& set);

}  // namespace zplan
