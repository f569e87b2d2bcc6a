// Attention of one rank: which implementation runs each shape, chosen once ahead of the first step.
// cuDNN's fused kernels where they run within the scratch, else our own.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "exec/cuda/cudnn_attention.h"
#include "exec/cuda/kernels/attention_kernels.h"
#include "exec/kernel_choice.h"

namespace zplan::exec::cuda {

// What was chosen, for reports.
struct AttentionChoice {
  std::string what;  // the first operation of this shape
  AttentionKey key;
  bool is_cudnn = false;  // else our own kernels
  std::string note;       // of cuDNN's plan, or why it is not used
  Bytes workspace{0};
};

// Bytes that divide the address of each operand, and room for the workspace.
struct AttentionRoom {
  std::uint32_t alignment = 0;
  Bytes scratch{0};
};

KernelChoice describe(const AttentionChoice& choice);

class AttentionPlans {
 public:
  // Ahead of the first step, once per operation; returns the workspace. Throws Error naming the
  // operation when neither implementation can run it.
  Bytes prepare(const std::string& what, const AttentionKey& key, const AttentionRoom& room);
  // Of a prepared key; T as its type. Queues the work on the stream.
  template <typename T>
  void run(cudaStream_t stream, const AttentionKey& key, const AttentionPointers& pointers);

  std::span<const AttentionChoice> choices() const { return choices_; }

 private:
  Bytes prepare_own(const std::string& what, const AttentionKey& key,
                    const std::string& note) const;

  CudnnAttention cudnn_;
  std::map<AttentionKey, std::size_t> chosen_;  // of choices_
  std::vector<AttentionChoice> choices_;
};

}  // namespace zplan::exec::cuda
