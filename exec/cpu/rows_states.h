// Rows of the dispatch table: gradients, optimizer states and conversions between types. Internal
// to exec/cpu.
#pragma once

#include <limits>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/optimizer.h"
#include "exec/host_kernels.h"
#include "planner/core/random.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cpu {

template <typename T>
void run_accumulate(const Call& c, GemmCache&) {
  with_state<Compute<T>>(c[0], [&](auto* from) {
    with_state<Compute<T>>(c[1], [&](auto* to) { accumulate(to, from, c[0].elements()); });
  });
}

template <typename T>
void run_cast(const Call& c, GemmCache&) {
  with_state<Compute<T>>(c[0], [&](auto* from) {
    with_state<Compute<T>>(c[1], [&](auto* to) { cast(to, from, c[0].elements()); });
  });
}

// Of any type: zero has the same bytes in all of them.
inline void run_fill_zero(const Call& c, GemmCache&) {
  fill_zero<Bf16>(c[0].as<Bf16>(),
                  c[0].view->bytes().value / static_cast<std::int64_t>(sizeof(Bf16)));
}

template <typename T>
void run_sum_squares(const Call& c, GemmCache&) {
  if (!is_counted(c)) return;
  const std::int64_t n = counted_squares(c);
  with_state<Compute<T>>(c[0], [&](auto* x) { sum_squares(c[1].as<double>(), x, n); });
}

// Of gradients that the loss scale multiplied: the norm and the factor are those without it.
inline void run_clip_coefficient(const Call& c, GemmCache&) {
  const double* scalars = c[1].as<double>();
  const double most = scalars[kMaxGradientNorm], scale = scalars[kLossScale];
  const double bound = most > 0 ? most : std::numeric_limits<double>::infinity();
  double squares = c[0].as<double>()[0] / (scale * scale);
  if (c.attributes[0] != 0) {
    const double norm = static_cast<float>(std::sqrt(squares));
    squares = norm * norm;  // exactly: 48 bits
  }
  const ClipResult result = clip_coefficient(squares, bound);
  double* clip = c[2].as<double>();
  clip[kClipFactor] = result.skip ? -1.0 : result.coefficient / scale;
  clip[kGradientNorm] = result.norm;
}

inline RoundingDraws rounding_draws(const Call& c) {
  const double step = c[4].as<double>()[kStepNumber];
  return {seed_key(c.services->train().seed), static_cast<std::uint32_t>(step), rounding_place(c)};
}

inline Elements elements_of(const Operand& operand) { return {operand.data, operand.view->dtype}; }

inline void run_adamw(const Call& c, GemmCache&) {
  const double* scalars = c[4].as<double>();
  const double factor = c[5].as<double>()[kClipFactor];
  const bool has_param = c.operands.size() > 6;
  adamw({.learning_rate = scalars[kLearningRate],
         .beta1 = scalars[kBeta1],
         .beta2 = scalars[kBeta2],
         .eps = scalars[kEpsilon],
         .weight_decay = scalars[kWeightDecay],
         .bias_correction1 = scalars[kBiasCorrection1],
         .bias_correction2 = scalars[kBiasCorrection2],
         .clip_coefficient = factor,
         .skip = factor < 0 || scalars[kInactive] != 0},
        {.master = elements_of(c[0]),
         .m = elements_of(c[1]),
         .v = elements_of(c[2]),
         .grad = elements_of(c[3]),
         .param = has_param ? elements_of(c[6]) : Elements{nullptr, c[0].view->dtype},
         .n = c[0].elements(),
         .flat_offset = flat_offset(c),
         .decay_elements = c.attributes[1],
         .draws = rounding_draws(c)});
}

template <void (*host_kernel)(const Call&)>
void run_host(const Call& c, GemmCache&) {
  host_kernel(c);
}

}  // namespace zplan::exec::cpu
