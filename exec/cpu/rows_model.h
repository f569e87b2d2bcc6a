// Rows of the dispatch table: embedding, norms, elementwise kernels and the loss. Internal to
// exec/cpu.
#pragma once

#include <algorithm>
#include <array>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/columns.h"
#include "exec/cpu/kernels/cross_entropy.h"
#include "exec/cpu/kernels/dequantise.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/embedding.h"
#include "exec/cpu/kernels/head_norm.h"
#include "exec/cpu/kernels/norm.h"
#include "exec/cpu/kernels/round_fp8.h"
#include "exec/cpu/kernels/whole_norm.h"
#include "exec/kernels/read_head_norm.h"
#include "exec/kernels/read_model.h"
#include "exec/kernels/read_whole_norm.h"

namespace zplan::exec::cpu {

// ---- loss ---------------------------------------------------------------------------------------

// Consecutive rows of logits of one sequence.
struct LogitRows {
  LogitShape shape;
  std::int64_t first;  // of b * s
  const std::int32_t* targets;
};

// The kernels take few rows at a time, so that their scratch fits on the stack.
inline constexpr std::int64_t kLossRows = 64;
struct LossScratch {
  alignas(kScratchAlignBytes) std::array<std::byte, kLossRows * sizeof(double)> bytes;
};

// Calls body(LogitRows) for all of logits[b*s, columns].
template <typename Body>
void for_logit_rows(const CrossEntropyShape& s, const std::int32_t* tokens, const Body& body) {
  const TokenRows token_rows{s.batch, s.sequence, tokens};
  for (std::int64_t i = 0; i < s.batch; ++i) {
    for (std::int64_t row = 0; row < s.sequence; row += kLossRows) {
      const std::int64_t rows = std::min(kLossRows, s.sequence - row);
      body(LogitRows{{rows, s.valid, s.columns, s.first, s.cap},
                     i * s.sequence + row,
                     token_rows.targets(i) + row});
    }
  }
}

// Gradients are scaled by the loss scale too, the loss is not.
inline double gradient_scale(const LossSum& loss) {
  return loss.scale * (loss.loss_scale != nullptr ? *loss.loss_scale : 1.0);
}

template <typename T>
void all_cross_entropy(const CrossEntropyShape& shape, T* logits, const std::int32_t* tokens,
                       const LossSum& loss) {
  LossScratch losses;
  double sum = 0;
  for_logit_rows(shape, tokens, [&](const LogitRows& rows) {
    cross_entropy<T>(rows.shape,
                     {.logits = logits + rows.first * shape.columns,
                      .targets = rows.targets,
                      .scale = gradient_scale(loss),
                      .loss_sum = &sum},
                     losses.bytes);
  });
  *loss.loss += sum * loss.scale;
}

template <typename T>
void all_cross_entropy_statistics(const CrossEntropyShape& shape, Compute<T>* statistics,
                                  const T* logits, const std::int32_t* tokens) {
  for_logit_rows(shape, tokens, [&](const LogitRows& rows) {
    cross_entropy_statistics<T>(rows.shape,
                                {.statistics = statistics + rows.first * kRowStatisticCount,
                                 .logits = logits + rows.first * shape.columns,
                                 .targets = rows.targets});
  });
}

template <typename T>
void all_cross_entropy_parallel(const CrossEntropyShape& shape, T* logits,
                                const std::int32_t* tokens, const Compute<T>* statistics,
                                std::int64_t pieces, const LossSum& loss) {
  LossScratch losses;
  double sum = 0;
  for_logit_rows(shape, tokens, [&](const LogitRows& rows) {
    cross_entropy_gradient<T>(rows.shape,
                              {.logits = logits + rows.first * shape.columns,
                               .targets = rows.targets,
                               .statistics = statistics + rows.first * kRowStatisticCount,
                               .pieces = pieces,
                               .piece_stride = shape.batch * shape.sequence * kRowStatisticCount,
                               .scale = gradient_scale(loss),
                               .loss_sum = &sum},
                              losses.bytes);
  });
  *loss.loss += sum * loss.scale;
}

// ---- norms --------------------------------------------------------------------------------------

template <typename T>
void residual_layernorm_forward(const NormShape& shape, const ResidualSum<T>& sum,
                                const NormForward<T>& norm) {
  bias_residual_add(sum.sum, sum.x, sum.y, sum.bias, shape.tokens, shape.hidden);
  layernorm_forward(shape, norm);
}

template <typename T>
void residual_rmsnorm_forward(const NormShape& shape, const ResidualSum<T>& sum,
                              const NormForward<T>& norm) {
  residual_add(sum.sum, sum.x, sum.y, shape.tokens * shape.hidden);
  rmsnorm_forward(shape, norm);
}

// ---- rows ---------------------------------------------------------------------------------------

template <typename T>
void dequantise_matrix(T* y, const std::uint8_t* codes, const Compute<T>* scales,
                       const std::uint8_t* scale_codes, const Compute<T>* constants, std::int64_t n,
                       bool is_fp4) {
  dequantise(y, CodedMatrix<Compute<T>>{codes, scales, scale_codes, constants, n, is_fp4});
}

template <typename T>
constexpr auto model_rows() {
  using K = KernelId;
  return std::to_array<DispatchEntry>({
      row(K::kEmbeddingForward, read_embedding_forward<T>,
          [](const auto&... x) { embedding_forward(x...); }),
      row(K::kEmbeddingBackward, read_embedding_backward<T>,
          [](const auto& shape, const auto& x, const Operand& own) {
            embedding_backward(shape, x, scratch(own));
          }),
      row(K::kLayerNormForward, read_layer_norm_forward<T>,
          [](const auto&... x) { layernorm_forward(x...); }),
      row(K::kLayerNormBackward, read_layer_norm_backward<T>,
          [](const auto& shape, const auto& x, const Operand&) { layernorm_backward(shape, x); }),
      row(K::kCentredNormForward, read_centred_norm_forward<T>,
          [](const auto&... x) { layernorm_forward(x...); }),
      row(K::kCentredNormBackward, read_centred_norm_backward<T>,
          [](const auto& shape, const auto& x, const Operand&) { layernorm_backward(shape, x); }),
      row(K::kWholeNormSquares, read_whole_norm_squares<T>,
          [](const auto&... x) { whole_norm_squares(x...); }),
      row(K::kWholeNormForward, read_whole_norm_forward<T>,
          [](const auto&... x) { whole_norm_forward(x...); }),
      row(K::kWholeNormProducts, read_whole_norm_products<T>,
          [](const auto&... x) { whole_norm_products(x...); }),
      row(K::kWholeNormBackward, read_whole_norm_backward<T>,
          [](const auto& shape, const auto& x, const Operand&) { whole_norm_backward(shape, x); }),
      row(K::kRmsNormForward, read_rms_norm_forward<T>,
          [](const auto&... x) { rmsnorm_forward(x...); }),
      row(K::kRmsNormBackward, read_rms_norm_backward<T>,
          [](const auto& shape, const auto& x, const Operand&) { rmsnorm_backward(shape, x); }),
      row(K::kResidualLayerNormForward, read_residual_layer_norm_forward<T>,
          [](const auto&... x) { residual_layernorm_forward(x...); }),
      row(K::kResidualRmsNormForward, read_residual_rms_norm_forward<T>,
          [](const auto&... x) { residual_rmsnorm_forward(x...); }),
      row(K::kHeadNormForward, read_head_norm_forward<T>,
          [](const auto&... x) { head_norm_forward(x...); }),
      row(K::kHeadNormBackward, read_head_norm_backward<T>,
          [](const auto& shape, const auto& x, const Operand&) { head_norm_backward(shape, x); }),
      row(K::kGeluForward, read_gelu_forward<T>, [](auto... x) { gelu_forward(x...); }),
      row(K::kGeluBackward, read_gelu_backward<T>, [](auto... x) { gelu_backward(x...); }),
      row(K::kSwigluForward, read_swiglu_forward<T>, [](auto... x) { swiglu_forward(x...); }),
      row(K::kSwigluBackward, read_swiglu_backward<T>, [](auto... x) { swiglu_backward(x...); }),
      row(K::kRoundFp8, read_round_fp8<T>,
          [](T* y, const T* x, std::int64_t rows, std::int64_t columns, std::int64_t block_rows,
             std::int64_t block_columns, bool e5m2) {
            round_fp8(y, x, {rows, columns, block_rows, block_columns, e5m2 ? kE5m2 : kE4m3});
          }),
      row(K::kDequantise, read_dequantise<T>, [](auto... x) { dequantise_matrix<T>(x...); }),
      row(K::kDequantiseDouble, read_dequantise_double<T>,
          [](auto... x) { dequantise_matrix<T>(x...); }),
      row(K::kQuantizeRows, read_code_rows<T, 1, 0>,
          [](std::uint8_t* codes, const T* x, std::int64_t rows, std::int64_t columns,
             std::int64_t block) {
            quantize_rows(codes, x, {rows, columns, block});
          }),
      row(K::kDequantizeRows, read_code_rows<T, 0, 1>,
          [](const std::uint8_t* codes, T* x, std::int64_t rows, std::int64_t columns,
             std::int64_t block) {
            dequantize_rows(x, codes, {rows, columns, block});
          }),
      row(K::kScale, read_scale<T>, [](auto... x) { scale(x...); }),
      row(K::kSoftCapForward, read_soft_cap_forward<T>, [](auto... x) { soft_cap_forward(x...); }),
      row(K::kSoftCapBackward, read_soft_cap_backward<T>,
          [](auto... x) { soft_cap_backward(x...); }),
      row(K::kResidualAdd, read_residual_add<T>, [](auto... x) { residual_add(x...); }),
      row(K::kBiasResidualAdd, read_bias_residual_add<T>,
          [](auto... x) { bias_residual_add(x...); }),
      row(K::kBiasGradient, read_bias_gradient<T>,
          [](auto* dbias, auto* dy, std::int64_t rows, std::int64_t columns, bool adds,
             const Operand&) { column_sums(dbias, dy, rows, columns, adds); }),
      row(K::kSplitColumns, read_split_columns<T>, [](auto... x) { split_columns(x...); }),
      row(K::kJoinColumns, read_join_columns<T>, [](auto... x) { join_columns(x...); }),
      row(K::kCrossEntropy, read_cross_entropy<T>, [](auto... x) { all_cross_entropy<T>(x...); }),
      row(K::kCrossEntropyStatistics, read_cross_entropy_statistics<T>,
          [](auto... x) { all_cross_entropy_statistics<T>(x...); }),
      row(K::kCrossEntropyParallel, read_cross_entropy_parallel<T>,
          [](auto... x) { all_cross_entropy_parallel<T>(x...); }),
  });
}

}  // namespace zplan::exec::cpu
