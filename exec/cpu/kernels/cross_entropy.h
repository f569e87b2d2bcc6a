// Softmax cross-entropy over the vocabulary, or a piece of it per rank of a tensor parallel group:
//   statistics of the rows of each piece: maximum, sum of exp(x - maximum), logit of the target
//   loss = log(sum over pieces of sum_k exp(maximum_k - maximum)) + maximum - target
//   gradient = (exp(x - maximum) / sum - onehot) scale                     [Shoeybi19 sec 3]
// The whole vocabulary is one piece. Columns from `valid` on are padding: never read, gradient
// zero. A token with target kIgnoredTarget has no loss and gradient zero; other targets must lie in
// [0, V). Arithmetic in Compute<T>, the loss in double.
// Per pass 24 T V flop (exp as 20); statistics read the logits, the gradient reads and writes them.
// Left out: label smoothing, z-loss.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"
#include "exec/cpu/kernels/scratch.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

// Layout of the statistics of a row, in Compute<T>.
enum RowStatistic : int { kRowMost, kRowSum, kRowTarget, kRowStatisticCount };

struct LogitShape {
  std::int64_t tokens;
  std::int64_t valid;      // columns of the piece that belong to the vocabulary, may be none
  std::int64_t columns;    // with padding: elements from row to row
  std::int64_t first = 0;  // vocabulary index of column 0
  double cap = 0;          // logits are cap tanh(x / cap) [Gemma24]; 0: x
};

template <typename T>
struct CrossEntropyStatistics {
  Compute<T>* statistics;       // [T, 3], overwritten; without a valid column -infinity, 0, 0
  const T* logits;              // [T, columns]
  const std::int32_t* targets;  // [T]
};

template <typename T>
void cross_entropy_statistics(const LogitShape& shape, const CrossEntropyStatistics<T>& x);

template <typename T>
struct CrossEntropyGradient {
  T* logits;                     // [T, columns] in: logits; out: (softmax - onehot) * scale
  const std::int32_t* targets;   // [T]
  const Compute<T>* statistics;  // [pieces, piece_stride / 3, 3], that of a token every 3 elements
  std::int64_t pieces, piece_stride;
  double scale;      // 1 / (valid tokens of the global batch), times any loss scale
  double* loss_sum;  // gains the sum of -log p(target), not scaled
};

// One loss per token, added up in token order.
Bytes cross_entropy_scratch_bytes(const LogitShape& shape);

template <typename T>
void cross_entropy_gradient(const LogitShape& shape, const CrossEntropyGradient<T>& x,
                            Scratch scratch);

template <typename T>
struct CrossEntropy {
  T* logits;
  const std::int32_t* targets;
  double scale;
  double* loss_sum;
};

// Both in one pass over the logits: 5 T V elements moved, from cache when a row fits.
template <typename T>
void cross_entropy(const LogitShape& shape, const CrossEntropy<T>& x, Scratch scratch);

}  // namespace zplan::exec::cpu
