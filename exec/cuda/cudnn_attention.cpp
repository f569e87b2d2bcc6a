#include "exec/cuda/cudnn_attention.h"

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exec/cuda/attention_pieces.h"
#include "exec/cuda/check.h"
#include "exec/cuda/warm_up.h"
#include "planner/core/error.h"

namespace zplan::exec::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int kLeastCapability = 8;  // the fused kernels need compute capability 8.0

enum Operand : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(ExitCode::kDevice, std::string(call) + ": " + cudnnGetErrorString(status));
}

// The tensors of a piece of `whole`, dimensions in cuDNN's order [b, heads, s, d].
class Operands {
 public:
  Operands(fe::graph::Graph& graph, const AttentionShape& whole, const AttentionShape& piece)
      : graph_(graph), whole_(whole), piece_(piece) {}

  // Some heads of a [b, s, row] array: how many, and elements of each.
  struct Heads {
    std::int64_t count, size, row;
  };
  Heads queries() const { return {piece_.heads, whole_.head_dim, whole_.columns()}; }
  Heads keys() const { return {piece_.kv_heads, whole_.head_dim, whole_.columns()}; }
  Heads values() const { return {piece_.kv_heads, whole_.value_dim, whole_.columns()}; }
  Heads out() const { return {piece_.heads, whole_.value_dim, whole_.heads * whole_.value_dim}; }

  std::vector<std::int64_t> dims(const Heads& heads) const {
    return {piece_.batch, heads.count, piece_.sequence, heads.size};
  }
  std::vector<std::int64_t> strides(const Heads& heads) const {
    return {whole_.sequence * heads.row, heads.size, heads.row, 1};
  }
  // lse[b, a, s] has one column. Pieces of one sequence hold fewer heads: theirs is packed as well.
  std::vector<std::int64_t> lse_dims() const {
    return {piece_.batch, piece_.heads, piece_.sequence, 1};
  }
  std::vector<std::int64_t> lse_strides() const {
    return {piece_.heads * piece_.sequence, piece_.sequence, 1, 1};
  }

  Tensor make(Operand id, const Heads& heads) {
    return graph_.tensor(
        fe::graph::Tensor_attributes().set_uid(id).set_dim(dims(heads)).set_stride(strides(heads)));
  }
  Tensor make_lse() {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(kLse)
                             .set_dim(lse_dims())
                             .set_stride(lse_strides())
                             .set_data_type(fe::DataType_t::FLOAT));
  }
  void result(const Tensor& tensor, Operand id, const Heads& heads) const {
    tensor->set_output(true).set_uid(id).set_dim(dims(heads)).set_stride(strides(heads));
  }

 private:
  fe::graph::Graph& graph_;
  AttentionShape whole_, piece_;
};

void add_forward(fe::graph::Graph& graph, const AttentionShape& whole, const AttentionShape& piece,
                 float scale) {
  Operands operands(graph, whole, piece);
  auto [out, lse] =
      graph.sdpa(operands.make(kQ, operands.queries()), operands.make(kK, operands.keys()),
                 operands.make(kV, operands.values()),
                 fe::graph::SDPA_attributes()
                     .set_name("attention_forward")
                     .set_generate_stats(true)
                     .set_causal_mask(true)
                     .set_attn_scale(scale));
  operands.result(out, kOut, operands.out());
  lse->set_output(true)
      .set_uid(kLse)
      .set_dim(operands.lse_dims())
      .set_stride(operands.lse_strides())
      .set_data_type(fe::DataType_t::FLOAT);
}

void add_backward(fe::graph::Graph& graph, const AttentionShape& whole, const AttentionShape& piece,
                  float scale) {
  Operands operands(graph, whole, piece);
  auto [dq, dk, dv] =
      graph.sdpa_backward(operands.make(kQ, operands.queries()), operands.make(kK, operands.keys()),
                          operands.make(kV, operands.values()), operands.make(kOut, operands.out()),
                          operands.make(kDout, operands.out()), operands.make_lse(),
                          fe::graph::SDPA_backward_attributes()
                              .set_name("attention_backward")
                              .set_causal_mask(true)
                              .set_attn_scale(scale));
  operands.result(dq, kDq, operands.queries());
  operands.result(dk, kDk, operands.keys());
  operands.result(dv, kDv, operands.values());
}

void describe(fe::graph::Graph& graph, const AttentionKey& key, const AttentionShape& piece) {
  const bool is_bf16 = key.type == DType::kBf16;
  graph.set_io_data_type(is_bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const float scale = 1.0f / std::sqrt(static_cast<float>(piece.head_dim));
  const auto add = key.pass == AttentionPass::kForward ? add_forward : add_backward;
  add(graph, key.shape, piece, scale);
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

struct CudnnAttention::Plan {
  AttentionShape piece;
  fe::graph::Graph graph;
  Bytes workspace{0};
};

namespace {

// Why there is no plan; nothing when it was built.
template <typename Plan>
std::optional<std::string> build(Plan& plan, cudnnHandle_t handle) {
  try {
    fe::error_t result = plan.graph.build(handle, {fe::HeurMode_t::A});
    if (result.is_good()) {
      plan.workspace = {plan.graph.get_workspace_size()};
      return std::nullopt;
    }
    return result.get_message();
  } catch (const std::exception& error) {  // of the frontend's older layers
    return error.what();
  }
}

}  // namespace

CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;

CudnnAttention::Offer CudnnAttention::prepare(const AttentionKey& key, Bytes scratch) {
  if (key.type == DType::kF32) return {.note = "cuDNN has no kernel for f32"};
  if (major_capability() < kLeastCapability) return {.note = "cuDNN needs compute capability 8.0"};
  if (library_ == nullptr) library_ = std::make_unique<Library>();
  std::unique_ptr<Plan>& plan = plans_[key];
  std::string reason = "cuDNN needs more scratch";
  for (const AttentionShape& piece : pieces_of(key.shape)) {
    if (plan != nullptr && plan->workspace <= scratch) break;
    plan = std::make_unique<Plan>();
    plan->piece = piece;
    describe(plan->graph, key, piece);
    if (const auto refusal = build(*plan, library_->handle)) {
      reason = "cuDNN: " + *refusal;
      plan = nullptr;
      break;
    }
  }
  if (plan == nullptr || plan->workspace > scratch) {
    plans_.erase(key);
    return {.note = reason};
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
  const Plan& plan = *plans_.at(key);
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
  if (done.is_bad()) throw Error(ExitCode::kDevice, "cuDNN attention: " + done.get_message());
}

}  // namespace zplan::exec::cuda
