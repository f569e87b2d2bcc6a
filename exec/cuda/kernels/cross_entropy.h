// Softmax cross-entropy over the vocabulary, or a piece of it per rank of a tensor parallel group;
// formulas and conventions stand in exec/cpu/kernels/cross_entropy.h. [Shoeybi19 sec 3] Columns
// from `valid` on are padding: not used, gradient zero. A token with target -1 has no loss and
// gradient zero. T is float, __half or __nv_bfloat16; statistics in float, losses in double. What
// changes from step to step is read from device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// Both in float64: the loss of the step is added up, the gradients carry the loss scale.
struct LossScaling {
  double* loss;              // [1], gains sum of -log p(target) times `scale`
  double* partials;          // [kPartials], overwritten
  const double* loss_scale;  // [1]; null: 1
  double scale;              // 1 / (valid tokens of the global batch)
};

// statistics [b s, 3]: maximum, sum of exp(x - maximum), logit of the target or 0; without a valid
// column -infinity, 0, 0. tokens [b, s + 1]: the target of token [i, j] is [i, j + 1]. A block per
// row; the logits are read once.
template <typename T>
void cross_entropy_statistics(cudaStream_t stream, const CrossEntropyShape& shape,
                              float* statistics, const T* logits, const std::int32_t* tokens);

// logits [b s, columns] become (softmax - onehot) scale loss_scale; statistics [pieces, b s, 3] are
// merged in the order of the pieces. The logits are read and written once.
template <typename T>
void cross_entropy_gradient(cudaStream_t stream, const CrossEntropyShape& shape, T* logits,
                            const std::int32_t* tokens, const float* statistics,
                            std::int64_t pieces, const LossScaling& scaling);

// Both, of the whole vocabulary: one pass over a row for maximum and sum together [Milakov18], one
// for the gradient. 3 b s columns elements moved, a row's second reading from cache.
template <typename T>
void cross_entropy(cudaStream_t stream, const CrossEntropyShape& shape, T* logits,
                   const std::int32_t* tokens, const LossScaling& scaling);

}  // namespace zplan::exec::cuda
