#include "exec/cpu/dispatch.h"

#include <array>

#include "exec/cpu/rows_attention.h"
#include "exec/cpu/rows_linear.h"
#include "exec/cpu/rows_model.h"
#include "exec/cpu/rows_states.h"

namespace zplan::exec::cpu {
namespace {

template <typename Row>
constexpr DispatchEntry prepared(KernelId kernel, const char* types) {
  return {kernel, types, Row::prepare, Row::run};
}

// No set of the CPU has dropout, whose kernels are the last.
constexpr auto kOffered = static_cast<std::size_t>(KernelId::kDropoutForward);

template <typename T>
constexpr std::array<DispatchEntry, kOffered> make_table() {
  using K = KernelId;
  return {{
      {K::kLoadBatch, "i", nullptr, run_host<load_batch>},
      {K::kStepScalars, "d", nullptr, run_host<step_scalars>},
      {K::kEmbeddingForward, "ix", nullptr, run_embedding_forward<T>},
      {K::kLayerNormForward, "xxxxt", nullptr, run_layer_norm_forward<T>},
      prepared<LinearForwardRow<T>>(K::kLinearForward, "xxxx*"),
      prepared<AttentionForwardRow<T>>(K::kAttentionForward, "xxt*"),
      {K::kGeluForward, "x", nullptr, run_gelu_forward<T>},
      {K::kResidualAdd, "x", nullptr, run_residual_add<T>},
      prepared<HeadForwardRow<T>>(K::kHeadForward, "xxx*"),
      {K::kCrossEntropy, "xid", nullptr, run_cross_entropy<T>},
      prepared<HeadInputGradientRow<T>>(K::kHeadInputGradient, "xxx*"),
      prepared<HeadWeightGradientRow<T>>(K::kHeadWeightGradient, "xxg*"),
      {K::kLayerNormBackward, "xxttxxgg*", nullptr, run_layer_norm_backward<T>},
      prepared<LinearInputGradientRow<T>>(K::kLinearInputGradient, "xxx*"),
      prepared<WeightGradientRow<T>>(K::kLinearWeightGradient, "xxgg*"),
      prepared<AttentionBackwardRow<T>>(K::kAttentionBackward, "xxxtx*"),
      {K::kGeluBackward, "x", nullptr, run_gelu_backward<T>},
      {K::kEmbeddingBackward, "ixg", nullptr, run_embedding_backward<T>},
      {K::kFillZero, "*", nullptr, run_fill_zero},
      {K::kAccumulate, "s", nullptr, run_accumulate<T>},
      {K::kSumSquares, "sd", nullptr, run_sum_squares<T>},
      {K::kClipCoefficient, "d", nullptr, run_clip_coefficient},
      {K::kAdamW, "ssssdds", nullptr, run_adamw},
      {K::kReport, "d", nullptr, run_host<report>},
      prepared<MatmulForwardRow<T>>(K::kMatmulForward, "xxx*"),
      prepared<WeightGradientRow<T>>(K::kMatmulWeightGradient, "xxg*"),
      {K::kBiasGradient, "xg*", nullptr, run_bias_gradient<T>},
      {K::kBiasResidualAdd, "x", nullptr, run_bias_residual_add<T>},
      {K::kRmsNormForward, "xxxt", nullptr, run_rms_norm_forward<T>},
      {K::kRmsNormBackward, "xxtxxg*", nullptr, run_rms_norm_backward<T>},
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
      {K::kCast, "s", nullptr, run_cast<T>},
      prepared<LinearGeluForwardRow<T>>(K::kLinearGeluForward, "xxxxx*"),
      prepared<GeluInputGradientRow<T>>(K::kGeluInputGradient, "xxxx*"),
      {K::kResidualLayerNormForward, "xxxxxxxtt", nullptr, run_residual_layer_norm_forward<T>},
      {K::kResidualRmsNormForward, "xxxxxt", nullptr, run_residual_rms_norm_forward<T>},
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
