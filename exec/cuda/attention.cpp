#include "exec/cuda/attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <fmt/format.h>

#include "planner/core/error.h"

namespace zplan::exec::cuda {

namespace {

constexpr std::uint32_t kCudnnAlignment = 16;  // of its vector loads

}  // namespace

// float32 has no tensor cores to miss.
KernelChoice describe(const AttentionChoice& choice) {
  const AttentionShape& s = choice.key.shape;
  const std::string what =
      fmt::format("attention {} of {} x {} tokens, {} heads of {}, {}",
                  choice.key.pass == AttentionPass::kForward ? "forward" : "backward", s.batch,
                  s.sequence, s.heads, s.widest(), name(choice.key.type));
  KernelChoice result{.operation = choice.what};
  if (choice.is_cudnn) {
    result.kernel = fmt::format("{}: cuDNN, {}", what, choice.note);
  } else {
    result.kernel = fmt::format("{}: zplan's own kernel on the cores for vectors", what);
    if (choice.key.type != DType::kF32) result.slow = choice.note;
  }
  return result;
}

// A shape that cuDNN cannot run everywhere runs on our own kernels everywhere.
Bytes AttentionPlans::prepare(const std::string& what, const AttentionKey& key,
                              const AttentionRoom& room) {
  const auto [known, is_new] = chosen_.emplace(key, choices_.size());
  if (is_new) choices_.push_back({.what = what, .key = key, .note = "", .workspace = Bytes{0}});
  AttentionChoice& choice = choices_[known->second];
  const bool is_aligned = room.alignment % kCudnnAlignment == 0;
  const bool suits = choice.is_cudnn && is_aligned && choice.workspace <= room.scratch;
  if (!is_new && (suits || !choice.is_cudnn)) return choice.workspace;
  CudnnAttention::Offer offer{.note = "operands are not on 16 bytes"};
  if (is_aligned) offer = cudnn_.prepare(key, room.scratch);
  choice.is_cudnn = offer.runs;
  choice.note = offer.note;
  choice.workspace = offer.workspace;
  if (!offer.runs) choice.workspace = prepare_own(what, key, offer.note);
  return choice.workspace;
}

Bytes AttentionPlans::prepare_own(const std::string& what, const AttentionKey& key,
                                  const std::string& note) const {
  if (key.shape.widest() > kMostHeadDim) {
    throw Error(ExitCode::kDevice,
                fmt::format("{}: attention needs heads of at most {} elements, got {} ({})", what,
                            kMostHeadDim, key.shape.widest(), note));
  }
  return {key.pass == AttentionPass::kBackward ? attention_delta_bytes(key.shape) : 0};
}

template <typename T>
void AttentionPlans::run(cudaStream_t stream, const AttentionKey& key, const AttentionPointers& x) {
  if (choices_[chosen_.at(key)].is_cudnn) return cudnn_.run(stream, key, x);
  const auto* qkv = static_cast<const T*>(x.qkv);
  auto* out = static_cast<T*>(x.out);
  if (key.pass == AttentionPass::kForward) {
    launch_attention_forward<T>(stream, key.shape, {.out = out, .lse = x.lse, .qkv = qkv});
  } else {
    launch_attention_backward<T>(stream, key.shape,
                                 {.dqkv = static_cast<T*>(x.dqkv),
                                  .dout = static_cast<const T*>(x.dout),
                                  .out = out,
                                  .lse = x.lse,
                                  .qkv = qkv,
                                  .delta = static_cast<float*>(x.scratch)});
  }
}

#define ZPLAN_INSTANTIATE(T) \
  template void AttentionPlans::run<T>(cudaStream_t, const AttentionKey&, const AttentionPointers&);
ZPLAN_INSTANTIATE(float)
ZPLAN_INSTANTIATE(__half)
ZPLAN_INSTANTIATE(__nv_bfloat16)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
