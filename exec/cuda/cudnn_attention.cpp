#include "exec/cuda/cudnn_attention.h"

#include <cudnn.h>

#include <algorithm>
#include <unordered_map>

#include "exec/cuda/attention_graph.h"
#include "exec/cuda/attention_pieces.h"
#include "exec/cuda/check.h"
#include "exec/cuda/warm_up.h"

namespace zplan::exec::cuda {
namespace {

namespace fe = cudnn_frontend;

constexpr int kLeastCapability = 8;  // the fused kernels need compute capability 8.0

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) fail_call(call, cudnnGetErrorString(status));
}

int major_capability() {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  return major;
}

}  // namespace

struct CudnnAttention::Library {
  Library() { check_cudnn(cudnnCreate(&handle), "cudnnCreate"); }
  ~Library() { cudnnDestroy(handle); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  cudnnHandle_t handle = nullptr;
};

CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;

CudnnAttention::Offer CudnnAttention::prepare(const AttentionKey& key, Bytes scratch) {
  if (key.type == DType::kF32) return {.note = "cuDNN has no kernel for f32"};
  if (major_capability() < kLeastCapability) return {.note = "cuDNN needs compute capability 8.0"};
  if (library_ == nullptr) library_ = std::make_unique<Library>();
  const auto build = [&](fe::graph::Graph& graph) {
    return graph.build(library_->handle, {fe::HeurMode_t::A});
  };
  std::string why_not;
  std::unique_ptr<AttentionGraph>& plan = plans_[key];
  plan = plan_attention(key, scratch, build, why_not);
  if (plan == nullptr) {
    plans_.erase(key);
    return {.note = why_not};
  }
  const AttentionShape& piece = plan->piece;
  // Of qkv, or of the result where that is larger.
  const std::int64_t elements =
      piece.batch * piece.sequence *
      std::max(key.shape.columns(), key.shape.heads * key.shape.value_dim);
  warm_up(size_of(DType::kF32) * elements, plan->workspace,
          [&](cudaStream_t stream, std::byte* operands, std::byte* scratch) {
            auto* lse = reinterpret_cast<float*>(operands);
            run_piece(stream, key, {operands, operands, lse, operands, operands, scratch}, 0, 0);
          });
  return {.runs = true,
          .workspace = plan->workspace,
          .note = std::to_string(piece.batch) + " sequences of " + std::to_string(piece.heads) +
                  " heads at a time"};
}

void CudnnAttention::run(cudaStream_t stream, const AttentionKey& key,
                         const AttentionPointers& pointers) {
  const AttentionShape &whole = key.shape, &piece = plans_.at(key)->piece;
  for (std::int64_t sequence = 0; sequence < whole.batch; sequence += piece.batch)
    for (std::int64_t head = 0; head < whole.kv_heads; head += piece.kv_heads)
      run_piece(stream, key, pointers, sequence, head);
}

void CudnnAttention::run_piece(cudaStream_t stream, const AttentionKey& key,
                               const AttentionPointers& pointers, std::int64_t sequence,
                               std::int64_t kv_head) {
  const AttentionGraph& plan = *plans_.at(key);
  check_cudnn(cudnnSetStream(library_->handle, stream), "cudnnSetStream");
  const auto at = [](const void* data, std::int64_t element) -> void* {
    constexpr std::int64_t kElementBytes = 2;
    return const_cast<std::byte*>(static_cast<const std::byte*>(data)) + element * kElementBytes;
  };
  const AttentionOffsets offset = offsets_of(key.shape, sequence, kv_head);
  std::unordered_map<std::int64_t, void*> operands{{kQ, at(pointers.qkv, offset.query)},
                                                   {kK, at(pointers.qkv, offset.key)},
                                                   {kV, at(pointers.qkv, offset.value)},
                                                   {kOut, at(pointers.out, offset.out)},
                                                   {kLse, pointers.lse + offset.lse}};
  if (key.pass == AttentionPass::kBackward) {
    operands.insert({{kDout, at(pointers.dout, offset.out)},
                     {kDq, at(pointers.dqkv, offset.query)},
                     {kDk, at(pointers.dqkv, offset.key)},
                     {kDv, at(pointers.dqkv, offset.value)}});
  }
  fe::error_t done = plan.graph.execute(library_->handle, operands, pointers.scratch);
  if (done.is_bad()) fail_call("cuDNN attention", done.get_message().c_str());
}

}  // namespace zplan::exec::cuda
