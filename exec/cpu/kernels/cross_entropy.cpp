#include "exec/cpu/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/cpu/kernels/softmax_statistics.h"

namespace zplan::exec::cpu {
namespace {

template <typename C>
struct Statistics {
  C most, sum, target;
};

// A logit, capped or not.
template <typename C>
C capped(C x, C cap) {
  return cap == 0 ? x : cap * std::tanh(x / cap);
}

template <typename C, typename T>
SoftmaxStatistics<C> capped_statistics(const T* row, std::int64_t valid, C cap) {
  C most = -std::numeric_limits<C>::infinity(), sum = 0;
  for (std::int64_t j = 0; j < valid; ++j)
    most = std::max(most, capped(static_cast<C>(row[j]), cap));
  for (std::int64_t j = 0; j < valid; ++j)
    sum += fast_exp(capped(static_cast<C>(row[j]), cap) - most);
  return {most, sum};
}

template <typename T>
Statistics<Compute<T>> statistics_of_row(const T* row, const LogitShape& shape,
                                         std::int64_t target) {
  using C = Compute<T>;
  const std::int64_t valid = shape.valid;
  const C cap = static_cast<C>(shape.cap);
  const auto [most, sum] =
      cap == 0 ? softmax_statistics(row, valid) : capped_statistics(row, valid, cap);
  const bool has_target = target >= 0 && target < valid;
  return {most, sum, has_target ? capped(static_cast<C>(row[target]), cap) : static_cast<C>(0)};
}

// In the order of the pieces.
template <typename C>
Statistics<C> merged(const C* pieces, std::int64_t count, std::int64_t stride) {
  Statistics<C> all{pieces[kRowMost], 0, 0};
  for (std::int64_t k = 1; k < count; ++k)
    all.most = std::max(all.most, pieces[k * stride + kRowMost]);
  for (std::int64_t k = 0; k < count; ++k) {
    const C* piece = pieces + k * stride;
    all.sum += piece[kRowSum] * (count == 1 ? 1 : fast_exp(piece[kRowMost] - all.most));
    all.target += piece[kRowTarget];
  }
  return all;
}

// Turns a row of logits into its gradient and returns -log p(target).
template <typename T>
double gradient_of_row(T* row, std::int64_t valid, std::int64_t target,
                       const Statistics<Compute<T>>& s, Compute<T> scale) {
  using C = Compute<T>;
  const bool has_target = target >= 0 && target < valid;
  const C most = s.most, factor = scale / s.sum;
  const C of_target =
      has_target ? fast_exp(static_cast<C>(row[target]) - most) * factor - scale : 0;
#pragma omp simd
  for (std::int64_t j = 0; j < valid; ++j) {
    row[j] = static_cast<T>(fast_exp(static_cast<C>(row[j]) - most) * factor);
  }
  if (has_target) row[target] = static_cast<T>(of_target);
  return std::log(static_cast<double>(s.sum)) +
         (static_cast<double>(s.most) - static_cast<double>(s.target));
}

// The same of capped logits.
template <typename T>
double capped_gradient_of_row(T* row, const LogitShape& shape, std::int64_t target,
                              const Statistics<Compute<T>>& s, Compute<T> scale) {
  using C = Compute<T>;
  const C cap = static_cast<C>(shape.cap), factor = scale / s.sum;
  for (std::int64_t j = 0; j < shape.valid; ++j) {
    const C bent = std::tanh(static_cast<C>(row[j]) / cap);
    const C gradient = fast_exp(cap * bent - s.most) * factor - (j == target ? scale : 0);
    row[j] = static_cast<T>(gradient * (1 - bent * bent));
  }
  return std::log(static_cast<double>(s.sum)) +
         (static_cast<double>(s.most) - static_cast<double>(s.target));
}

// Row t of the logits becomes its gradient, padding included; returns the loss of token t.
// statistics_of(row, target) are those over all pieces.
template <typename T, typename StatisticsOf>
double finish_token(const LogitShape& shape, T* logits, std::int32_t target, double scale,
                    std::int64_t t, const StatisticsOf& statistics_of) {
  T* row = logits + t * shape.columns;
  const bool is_ignored = target == kIgnoredTarget;
  std::fill(row + (is_ignored ? 0 : shape.valid), row + shape.columns, static_cast<T>(0));
  if (is_ignored) return 0.0;
  const std::int64_t column = target - shape.first;
  if (shape.cap != 0)
    return capped_gradient_of_row(row, shape, column, statistics_of(row, column),
                                  static_cast<Compute<T>>(scale));
  return gradient_of_row(row, shape.valid, column, statistics_of(row, column),
                         static_cast<Compute<T>>(scale));
}

template <typename LossOf>
void add_losses(const LogitShape& shape, double* loss_sum, Scratch scratch, const LossOf& loss_of) {
  double* losses = ScratchCutter(scratch).take<double>(shape.tokens);
  for_rows(shape.tokens, shape.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) losses[t] = loss_of(t);
  });
  for (std::int64_t t = 0; t < shape.tokens; ++t) *loss_sum += losses[t];
}

}  // namespace

Bytes cross_entropy_scratch_bytes(const LogitShape& shape) {
  return {aligned_bytes<double>(shape.tokens)};
}

template <typename T>
void cross_entropy_statistics(const LogitShape& shape, const CrossEntropyStatistics<T>& x) {
  for_rows(shape.tokens, shape.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto s =
          statistics_of_row(x.logits + t * shape.columns, shape, x.targets[t] - shape.first);
      Compute<T>* out = x.statistics + t * kRowStatisticCount;
      out[kRowMost] = s.most;
      out[kRowSum] = s.sum;
      out[kRowTarget] = s.target;
    }
  });
}

template <typename T>
void cross_entropy_gradient(const LogitShape& shape, const CrossEntropyGradient<T>& x,
                            Scratch scratch) {
  add_losses(shape, x.loss_sum, scratch, [&](std::int64_t t) {
    return finish_token(shape, x.logits, x.targets[t], x.scale, t, [&](const T*, std::int64_t) {
      return merged(x.statistics + t * kRowStatisticCount, x.pieces, x.piece_stride);
    });
  });
}

template <typename T>
void cross_entropy(const LogitShape& shape, const CrossEntropy<T>& x, Scratch scratch) {
  add_losses(shape, x.loss_sum, scratch, [&](std::int64_t t) {
    return finish_token(
        shape, x.logits, x.targets[t], x.scale, t,
        [&](const T* row, std::int64_t target) { return statistics_of_row(row, shape, target); });
  });
}

#define ZPLAN_INSTANTIATE(T)                                                                      \
  template void cross_entropy_statistics<T>(const LogitShape&, const CrossEntropyStatistics<T>&); \
  template void cross_entropy_gradient<T>(const LogitShape&, const CrossEntropyGradient<T>&,      \
                                          Scratch);                                               \
  template void cross_entropy<T>(const LogitShape&, const CrossEntropy<T>&, Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
