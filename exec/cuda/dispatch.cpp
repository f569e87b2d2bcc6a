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
constexpr DispatchEntry prepared(KernelId kernel, const char* types) {
  return {kernel, types, Row::prepare, Row::run};
}

template <typename T>
constexpr auto make_table() {
  using K = KernelId;
  using Op = GemmOp;
  return std::to_array<DispatchEntry>({
      {K::kEmbeddingForward, "ix", nullptr, run_embedding_forward<T>},
      {K::kLayerNormForward, "xxxxt", nullptr, run_layer_norm_forward<T>},
      prepared<ProductRow<Op::kNN, GemmEpilogue::kBias>>(K::kLinearForward, "xxxx*"),
      prepared<AttentionForwardRow<T>>(K::kAttentionForward, "xxt*"),
      {K::kGeluForward, "x", nullptr, run_gelu_forward<T>},
      {K::kResidualAdd, "x", nullptr, run_residual_add<T>},
      prepared<ProductRow<Op::kNT>>(K::kHeadForward, "xxx*"),
      {K::kCrossEntropy, "xid", nullptr, run_cross_entropy<T>},
      prepared<ProductRow<Op::kNN>>(K::kHeadInputGradient, "xxx*"),
      prepared<ProductRow<Op::kTN>>(K::kHeadWeightGradient, "xxg*"),
      {K::kLayerNormBackward, "xxttxxgg*", prepare_layer_norm_backward, run_layer_norm_backward<T>},
      prepared<ProductRow<Op::kNT>>(K::kLinearInputGradient, "xxx*"),
      prepared<LinearWeightGradientRow<T>>(K::kLinearWeightGradient, "xxgg*"),
      prepared<AttentionBackwardRow<T>>(K::kAttentionBackward, "xxxtx*"),
      {K::kGeluBackward, "x", nullptr, run_gelu_backward<T>},
      {K::kEmbeddingBackward, "ixg", nullptr, run_embedding_backward<T>},
      {K::kFillZero, "*", nullptr, run_fill_zero},
      {K::kAccumulate, "s", nullptr, run_accumulate},
      {K::kSumSquares, "sd", nullptr, run_sum_squares},
      {K::kClipCoefficient, "d", nullptr, run_clip_coefficient},
      {K::kAdamW, "ssssdds", nullptr, run_adamw},
      prepared<ProductRow<Op::kNN>>(K::kMatmulForward, "xxx*"),
      prepared<ProductRow<Op::kTN>>(K::kMatmulWeightGradient, "xxg*"),
      {K::kBiasGradient, "xg*", prepare_bias_gradient, run_bias_gradient<T>},
      {K::kBiasResidualAdd, "x", nullptr, run_bias_residual_add<T>},
      {K::kRmsNormForward, "xxxt", nullptr, run_rms_norm_forward<T>},
      {K::kRmsNormBackward, "xxtxxg*", prepare_rms_norm_backward, run_rms_norm_backward<T>},
      {K::kRope, "x", nullptr, run_rope<T>},
      {K::kSwigluForward, "x", nullptr, run_swiglu_forward<T>},
      {K::kSwigluBackward, "x", nullptr, run_swiglu_backward<T>},
      prepared<AttentionScoresRow<T>>(K::kAttentionScores, "xx*"),
      {K::kSoftmaxForward, "x", nullptr, run_softmax_forward<T>},
      prepared<AttentionContextRow<T>>(K::kAttentionContext, "xxx*"),
      prepared<AttentionContextGradientRow<T>>(K::kAttentionContextGradient, "xxx*"),
      {K::kSoftmaxBackward, "x", nullptr, run_softmax_backward<T>},
      prepared<AttentionScoresGradientRow<T>>(K::kAttentionScoresGradient, "xxxxx*"),
      {K::kCrossEntropyStatistics, "xit", nullptr, run_cross_entropy_statistics<T>},
      {K::kCrossEntropyParallel, "xitd", nullptr, run_cross_entropy_parallel<T>},
      {K::kCast, "s", nullptr, run_cast},
      prepared<LinearGeluForwardRow<T>>(K::kLinearGeluForward, "xxxxx*"),
      prepared<GeluInputGradientRow<T>>(K::kGeluInputGradient, "xxxx*"),
      {K::kResidualLayerNormForward, "xxxxxxxtt", nullptr, run_residual_layer_norm_forward<T>},
      {K::kResidualRmsNormForward, "xxxxxt", nullptr, run_residual_rms_norm_forward<T>},
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
