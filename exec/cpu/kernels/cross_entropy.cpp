#include "exec/cpu/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

// Turns a row of logits into its gradient and returns -log p(target).
template <typename T>
double gradient_of_row(T* row, std::int64_t vocab, std::int32_t target, T scale) {
  T most = row[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < vocab; ++j) most = row[j] > most ? row[j] : most;
  const double target_logit = static_cast<double>(row[target]);
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < vocab; ++j) {
    row[j] = fast_exp(row[j] - most);
    sum += row[j];
  }
  const T factor = scale / sum;
  for (std::int64_t j = 0; j < vocab; ++j) row[j] *= factor;
  row[target] -= scale;
  return std::log(static_cast<double>(sum)) + (static_cast<double>(most) - target_logit);
}

// Row t of the logits becomes its gradient, padding included; returns the loss of token t.
template <typename T>
double finish_token(const CrossEntropyShape& shape, const CrossEntropy<T>& x, std::int64_t t) {
  T* row = x.logits + t * shape.padded_vocab;
  const bool is_ignored = x.targets[t] == kIgnoredTarget;
  std::fill(row + (is_ignored ? 0 : shape.vocab), row + shape.padded_vocab, static_cast<T>(0));
  if (is_ignored) return 0.0;
  return gradient_of_row(row, shape.vocab, x.targets[t], static_cast<T>(x.scale));
}

}  // namespace

Bytes cross_entropy_scratch_bytes(const CrossEntropyShape& shape) {
  return {aligned_bytes<double>(shape.tokens)};
}

template <typename T>
void cross_entropy(const CrossEntropyShape& shape, const CrossEntropy<T>& x, Scratch scratch) {
  double* losses = ScratchCutter(scratch).take<double>(shape.tokens);
  for_rows(shape.tokens, shape.vocab, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) losses[t] = finish_token(shape, x, t);
  });
  for (std::int64_t t = 0; t < shape.tokens; ++t) *x.loss_sum += losses[t];
}

template void cross_entropy<float>(const CrossEntropyShape&, const CrossEntropy<float>&, Scratch);
template void cross_entropy<double>(const CrossEntropyShape&, const CrossEntropy<double>&, Scratch);

}  // namespace zplan::exec::cpu
