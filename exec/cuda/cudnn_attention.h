// Causal attention by cuDNN's fused kernels, on the packed layout of exec/cuda/kernels/
// attention_kernels.h as it stands: nothing is transposed. bf16 and fp16 on devices of compute
// capability 8.0 or more. Its statistics are the natural log of the sum of exp of the scaled
// scores, which is lse. In backward it adds up dq in an order that varies, so gradients may differ
// in their last bits from run to run. A plan whose workspace is larger than the scratch is replaced
// by one for fewer sequences, then by one for fewer heads of one sequence, which runs several
// times. Left out where cuDNN or its frontend was not found: then no plan is ever offered.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <string>

#include "exec/cuda/kernels/attention_kernels.h"
#include "planner/program/job/ops.h"

namespace zplan::exec::cuda {

enum class AttentionPass : std::uint8_t { kForward, kBackward };

struct AttentionKey {
  AttentionShape shape;
  DType type = DType::kF32;
  AttentionPass pass = AttentionPass::kForward;
  friend auto operator<=>(const AttentionKey&, const AttentionKey&) = default;
};

// Elements of 16 bits; dqkv and dout only in backward.
struct AttentionPointers {
  const void* qkv;
  void* out;   // read in backward
  float* lse;  // read in backward
  const void* dout = nullptr;
  void* dqkv = nullptr;
  void* scratch;
};

struct AttentionGraph;  // attention_graph.h

class CudnnAttention {
 public:
  CudnnAttention();
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  struct Offer {
    bool runs = false;
    Bytes workspace{0};
    std::string note;  // "4 sequences of 12 heads at a time", or why it does not run
  };
  // Ahead of the first step; builds the plan and runs it once (warm_up.h).
  Offer prepare(const AttentionKey& key, Bytes scratch);
  // Of an offer that runs.
  void run(cudaStream_t stream, const AttentionKey& key, const AttentionPointers& pointers);

 private:
  struct Library;

  // That begins at this sequence and key-value head.
  void run_piece(cudaStream_t stream, const AttentionKey& key, const AttentionPointers& pointers,
                 std::int64_t sequence, std::int64_t kv_head);

  std::unique_ptr<Library> library_;  // null until there is something to prepare
  std::map<AttentionKey, std::unique_ptr<AttentionGraph>> plans_;
};

}  // namespace zplan::exec::cuda
