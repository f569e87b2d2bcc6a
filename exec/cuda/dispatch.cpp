#include "exec/cuda/dispatch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>

#include "exec/cuda/rows_attention.h"
#include "exec/cuda/rows_linear.h"
#include "exec/cuda/rows_model.h"
#include "exec/cuda/rows_states.h"

namespace zplan::exec::cuda {
namespace {

template <typename Row>
constexpr DispatchEntry prepared(KernelId kernel) {
  return {kernel, Row::prepare, Row::run};
}

template <typename T>
constexpr auto make_table() {
  using K = KernelId;
  using Op = GemmOp;
  return std::to_array<DispatchEntry>({
      {K::kEmbeddingForward, nullptr, run_embedding_forward<T>},
      {K::kLayerNormForward, nullptr, run_layer_norm_forward<T>},
      prepared<ProductRow<Op::kNN, GemmEpilogue::kBias>>(K::kLinearForward),
      prepared<AttentionForwardRow<T>>(K::kAttentionForward),
      {K::kGeluForward, nullptr, run_gelu_forward<T>},
      {K::kResidualAdd, nullptr, run_residual_add<T>},
      prepared<ProductRow<Op::kNT>>(K::kHeadForward),
      {K::kCrossEntropy, nullptr, run_cross_entropy<T>},
      prepared<ProductRow<Op::kNN>>(K::kHeadInputGradient),
      prepared<ProductRow<Op::kTN>>(K::kHeadWeightGradient),
      {K::kLayerNormBackward, prepare_layer_norm_backward, run_layer_norm_backward<T>},
      prepared<ProductRow<Op::kNT>>(K::kLinearInputGradient),
      prepared<LinearWeightGradientRow<T>>(K::kLinearWeightGradient),
      prepared<AttentionBackwardRow<T>>(K::kAttentionBackward),
      {K::kGeluBackward, nullptr, run_gelu_backward<T>},
      {K::kEmbeddingBackward, nullptr, run_embedding_backward<T>},
      {K::kFillZero, nullptr, run_fill_zero},
      {K::kAccumulate, nullptr, run_accumulate},
      {K::kSumSquares, nullptr, run_sum_squares},
      {K::kClipCoefficient, nullptr, run_clip_coefficient},
      {K::kAdamW, nullptr, run_adamw},
      prepared<ProductRow<Op::kNN>>(K::kMatmulForward),
      prepared<ProductRow<Op::kTN>>(K::kMatmulWeightGradient),
      {K::kBiasGradient, prepare_bias_gradient, run_bias_gradient<T>},
      {K::kBiasResidualAdd, nullptr, run_bias_residual_add<T>},
      {K::kRmsNormForward, nullptr, run_rms_norm_forward<T>},
      {K::kRmsNormBackward, prepare_rms_norm_backward, run_rms_norm_backward<T>},
      {K::kRope, nullptr, run_rope<T>},
      {K::kSwigluForward, nullptr, run_swiglu_forward<T>},
      {K::kSwigluBackward, nullptr, run_swiglu_backward<T>},
      prepared<AttentionScoresRow<T>>(K::kAttentionScores),
      {K::kSoftmaxForward, nullptr, run_softmax_forward<T>},
      prepared<AttentionContextRow<T>>(K::kAttentionContext),
      prepared<AttentionContextGradientRow<T>>(K::kAttentionContextGradient),
      {K::kSoftmaxBackward, nullptr, run_softmax_backward<T>},
      prepared<AttentionScoresGradientRow<T>>(K::kAttentionScoresGradient),
      {K::kCrossEntropyStatistics, nullptr, run_cross_entropy_statistics<T>},
      {K::kCrossEntropyParallel, nullptr, run_cross_entropy_parallel<T>},
      {K::kCast, nullptr, run_cast},
      prepared<LinearGeluForwardRow<T>>(K::kLinearGeluForward),
      prepared<GeluInputGradientRow<T>>(K::kGeluInputGradient),
      {K::kResidualLayerNormForward, nullptr, run_residual_layer_norm_forward<T>},
      {K::kResidualRmsNormForward, nullptr, run_residual_rms_norm_forward<T>},
  });
}

constexpr auto kFloatTable = make_table<float>();
constexpr auto kBf16Table = make_table<__nv_bfloat16>();
constexpr auto kFp16Table = make_table<__half>();

}  // namespace

std::span<const DispatchEntry> dispatch_table(DType compute) {
  switch (compute) {
    case DType::kF32:
      return kFloatTable;
    case DType::kBf16:
      return kBf16Table;
    case DType::kF16:
      return kFp16Table;
    case DType::kF64:
    case DType::kI32:
    case DType::kU8:
      break;
  }
  return {};
}

}  // namespace zplan::exec::cuda
