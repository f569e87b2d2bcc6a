#include "exec/cpu/dispatch.h"

#include <array>

#include "exec/cpu/rows_attention.h"
#include "exec/cpu/rows_linear.h"
#include "exec/cpu/rows_model.h"
#include "exec/cpu/rows_states.h"

namespace zplan::exec::cpu {
namespace {

template <typename Row>
constexpr DispatchEntry prepared(KernelId kernel) {
  return {kernel, Row::prepare, Row::run};
}

// No set of the CPU has dropout, whose kernels are the last.
constexpr auto kOffered = static_cast<std::size_t>(KernelId::kDropoutForward);

template <typename T>
constexpr std::array<DispatchEntry, kOffered> make_table() {
  using K = KernelId;
  return {{
      {K::kLoadBatch, nullptr, run_host<load_batch>},
      {K::kStepScalars, nullptr, run_host<step_scalars>},
      {K::kEmbeddingForward, nullptr, run_embedding_forward<T>},
      {K::kLayerNormForward, nullptr, run_layer_norm_forward<T>},
      prepared<LinearForwardRow<T>>(K::kLinearForward),
      prepared<AttentionForwardRow<T>>(K::kAttentionForward),
      {K::kGeluForward, nullptr, run_gelu_forward<T>},
      {K::kResidualAdd, nullptr, run_residual_add<T>},
      prepared<HeadForwardRow<T>>(K::kHeadForward),
      {K::kCrossEntropy, nullptr, run_cross_entropy<T>},
      prepared<HeadInputGradientRow<T>>(K::kHeadInputGradient),
      prepared<HeadWeightGradientRow<T>>(K::kHeadWeightGradient),
      {K::kLayerNormBackward, nullptr, run_layer_norm_backward<T>},
      prepared<LinearInputGradientRow<T>>(K::kLinearInputGradient),
      prepared<WeightGradientRow<T>>(K::kLinearWeightGradient),
      prepared<AttentionBackwardRow<T>>(K::kAttentionBackward),
      {K::kGeluBackward, nullptr, run_gelu_backward<T>},
      {K::kEmbeddingBackward, nullptr, run_embedding_backward<T>},
      {K::kFillZero, nullptr, run_fill_zero},
      {K::kAccumulate, nullptr, run_accumulate<T>},
      {K::kSumSquares, nullptr, run_sum_squares<T>},
      {K::kClipCoefficient, nullptr, run_clip_coefficient},
      {K::kAdamW, nullptr, run_adamw},
      {K::kReport, nullptr, run_host<report>},
      prepared<MatmulForwardRow<T>>(K::kMatmulForward),
      prepared<WeightGradientRow<T>>(K::kMatmulWeightGradient),
      {K::kBiasGradient, nullptr, run_bias_gradient<T>},
      {K::kBiasResidualAdd, nullptr, run_bias_residual_add<T>},
      {K::kRmsNormForward, nullptr, run_rms_norm_forward<T>},
      {K::kRmsNormBackward, nullptr, run_rms_norm_backward<T>},
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
      {K::kCast, nullptr, run_cast<T>},
      prepared<LinearGeluForwardRow<T>>(K::kLinearGeluForward),
      prepared<GeluInputGradientRow<T>>(K::kGeluInputGradient),
      {K::kResidualLayerNormForward, nullptr, run_residual_layer_norm_forward<T>},
      {K::kResidualRmsNormForward, nullptr, run_residual_rms_norm_forward<T>},
  }};
}

constexpr auto kDoubleTable = make_table<double>();
constexpr auto kFloatTable = make_table<float>();
constexpr auto kBf16Table = make_table<Bf16>();
constexpr auto kFp16Table = make_table<Fp16>();

}  // namespace

std::span<const DispatchEntry> dispatch_table(DType compute) {
  switch (compute) {
    case DType::kF64:
      return kDoubleTable;
    case DType::kF32:
      return kFloatTable;
    case DType::kBf16:
      return kBf16Table;
    case DType::kF16:
      return kFp16Table;
    case DType::kI32:
    case DType::kU8:
      break;
  }
  return {};
}

}  // namespace zplan::exec::cpu
