// Rows of the dispatch table: embedding, norms, elementwise kernels, rotary positions, softmax and
// the loss. Internal to exec/cuda.
#pragma once

#include <array>

#include "exec/cuda/call_support.h"
#include "exec/cuda/kernels/columns.h"
#include "exec/cuda/kernels/cross_entropy.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/embedding.h"
#include "exec/cuda/kernels/head_norm.h"
#include "exec/cuda/kernels/latent_heads.h"
#include "exec/cuda/kernels/norm.h"
#include "exec/cuda/kernels/rope.h"
#include "exec/cuda/kernels/sinks.h"
#include "exec/cuda/kernels/softmax.h"
#include "exec/kernels/read_head_norm.h"
#include "exec/kernels/read_latent_heads.h"
#include "exec/kernels/read_model.h"

namespace zplan::exec::cuda {

inline LossScaling loss_scaling(const LossSum& x, const LaneContext& lane) {
  return {.loss = x.loss, .partials = lane.partials, .loss_scale = x.loss_scale, .scale = x.scale};
}

template <typename T>
constexpr auto model_rows() {
  using K = KernelId;
  const auto norm_scratch = [](const NormShape& shape, const auto&, const Operand&) {
    return norm_scratch_bytes(shape);
  };
  return std::to_array<DispatchEntry>({
      row(K::kEmbeddingForward, read_embedding_forward<T>,
          [](auto& lane, const auto&... x) { embedding_forward(lane.stream, x...); }),
      row(
          K::kEmbeddingBackward, read_embedding_backward<T>,
          [](const EmbeddingShape& shape, const auto&, const Operand&) {
            return embedding_scratch_bytes(shape);
          },
          [](auto& lane, const auto& shape, const auto& x, const Operand& scratch) {
            embedding_backward(lane.stream, shape, x, device_scratch(scratch));
          }),
      row(K::kLayerNormForward, read_layer_norm_forward<T>,
          [](auto& lane, const auto&... x) { layernorm_forward(lane.stream, x...); }),
      row(K::kLayerNormBackward, read_layer_norm_backward<T>, norm_scratch,
          [](auto& lane, const auto& shape, const auto& x, const Operand& scratch) {
            layernorm_backward(lane.stream, shape, x, device_scratch(scratch));
          }),
      row(K::kRmsNormForward, read_rms_norm_forward<T>,
          [](auto& lane, const auto&... x) { rmsnorm_forward(lane.stream, x...); }),
      row(K::kRmsNormBackward, read_rms_norm_backward<T>, norm_scratch,
          [](auto& lane, const auto& shape, const auto& x, const Operand& scratch) {
            rmsnorm_backward(lane.stream, shape, x, device_scratch(scratch));
          }),
      row(K::kResidualLayerNormForward, read_residual_layer_norm_forward<T>,
          [](auto& lane, const auto&... x) { residual_layernorm_forward(lane.stream, x...); }),
      row(K::kResidualRmsNormForward, read_residual_rms_norm_forward<T>,
          [](auto& lane, const auto&... x) { residual_rmsnorm_forward(lane.stream, x...); }),
      row(K::kHeadNormForward, read_head_norm_forward<T>,
          [](auto& lane, const auto&... x) { head_norm_forward(lane.stream, x...); }),
      row(
          K::kHeadNormBackward, read_head_norm_backward<T>,
          [](const auto& shape, const auto&, const Operand&) {
            return head_norm_scratch_bytes(shape);
          },
          [](auto& lane, const auto& shape, const auto& x, const Operand& scratch) {
            head_norm_backward(lane.stream, shape, x, device_scratch(scratch));
          }),
      row(K::kGeluForward, read_gelu_forward<T>,
          [](auto& lane, auto... x) { gelu_forward<T>(lane.stream, x...); }),
      row(K::kGeluBackward, read_gelu_backward<T>,
          [](auto& lane, auto... x) { gelu_backward<T>(lane.stream, x...); }),
      row(K::kSwigluForward, read_swiglu_forward<T>,
          [](auto& lane, auto... x) { swiglu_forward<T>(lane.stream, x...); }),
      row(K::kSwigluBackward, read_swiglu_backward<T>,
          [](auto& lane, auto... x) { swiglu_backward<T>(lane.stream, x...); }),
      row(K::kScale, read_scale<T>, [](auto& lane, auto... x) { scale<T>(lane.stream, x...); }),
      row(K::kSoftCapForward, read_soft_cap_forward<T>,
          [](auto& lane, auto... x) { soft_cap_forward<T>(lane.stream, x...); }),
      row(K::kSoftCapBackward, read_soft_cap_backward<T>,
          [](auto& lane, auto... x) { soft_cap_backward<T>(lane.stream, x...); }),
      row(K::kSinksForward, read_sinks_forward<T>,
          [](auto& lane, const auto&... x) { sinks_forward(lane.stream, x...); }),
      row(
          K::kSinksBackward, read_sinks_backward<T>,
          [](const SinksShape& shape, const auto&, const Operand&) {
            return sinks_scratch_bytes(shape);
          },
          [](auto& lane, const auto& shape, const auto& x, const Operand& scratch) {
            sinks_backward(lane.stream, shape, x, device_scratch(scratch));
          }),
      row(K::kResidualAdd, read_residual_add<T>,
          [](auto& lane, auto... x) { residual_add<T>(lane.stream, x...); }),
      row(K::kBiasResidualAdd, read_bias_residual_add<T>,
          [](auto& lane, auto... x) { bias_residual_add<T>(lane.stream, x...); }),
      row(
          K::kBiasGradient, read_bias_gradient<T>,
          [](auto*, auto*, std::int64_t, std::int64_t columns, bool, const Operand&) {
            return column_sums_scratch_bytes(columns);
          },
          [](auto& lane, auto* dbias, auto* dy, std::int64_t rows, std::int64_t columns, bool adds,
             const Operand& scratch) {
            column_sums(lane.stream, dbias, dy, rows, columns, adds, device_scratch(scratch));
          }),
      row(K::kSplitColumns, read_split_columns<T>,
          [](auto& lane, auto... x) { split_columns<T>(lane.stream, x...); }),
      row(K::kJoinColumns, read_join_columns<T>,
          [](auto& lane, auto... x) { join_columns<T>(lane.stream, x...); }),
      row(K::kLatentHeadsForward, read_latent_heads_forward<T>,
          [](auto& lane, const auto&... x) { latent_heads_forward(lane.stream, x...); }),
      row(K::kLatentHeadsBackward, read_latent_heads_backward<T>,
          [](auto& lane, const auto&... x) { latent_heads_backward(lane.stream, x...); }),
      row(K::kRope, read_rope<T>, [](auto& lane, auto... x) { rope<T>(lane.stream, x...); }),
      row(K::kSoftmaxForward, read_softmax_forward<T>,
          [](auto& lane, auto... x) { softmax_forward<T>(lane.stream, x...); }),
      row(K::kSoftmaxBackward, read_softmax_backward<T>,
          [](auto& lane, auto... x) { softmax_backward<T>(lane.stream, x...); }),
      row(K::kCrossEntropy, read_cross_entropy<T>,
          [](auto& lane, const CrossEntropyShape& shape, T* logits, const std::int32_t* tokens,
             const LossSum& loss) {
            cross_entropy<T>(lane.stream, shape, logits, tokens, loss_scaling(loss, lane));
          }),
      row(K::kCrossEntropyStatistics, read_cross_entropy_statistics<T>,
          [](auto& lane, auto... x) { cross_entropy_statistics<T>(lane.stream, x...); }),
      row(K::kCrossEntropyParallel, read_cross_entropy_parallel<T>,
          [](auto& lane, const CrossEntropyShape& shape, T* logits, const std::int32_t* tokens,
             const float* statistics, std::int64_t pieces, const LossSum& loss) {
            cross_entropy_gradient<T>(lane.stream, shape, logits, tokens, statistics, pieces,
                                      loss_scaling(loss, lane));
          }),
  });
}

}  // namespace zplan::exec::cuda
