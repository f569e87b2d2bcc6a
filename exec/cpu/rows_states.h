// Rows of the dispatch table: gradients, optimizer states and conversions between types. Internal
// to exec/cpu.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "exec/cpu/call_support.h"
#include "exec/cpu/kernels/adafactor.h"
#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/kernels/muon.h"
#include "exec/cpu/kernels/optimizer.h"
#include "exec/host_kernels.h"
#include "exec/kernels/read_adafactor.h"
#include "exec/kernels/read_states.h"
#include "planner/core/error.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cpu {

// Of gradients that the loss scale multiplied: the norm and the factor are those without it. With
// `rounds` the norm is rounded to float.
inline void clip_coefficient_of_step(double* clip, const double* sum, const double* scalars,
                                     bool rounds) {
  const double most = scalars[kMaxGradientNorm], scale = scalars[kLossScale];
  const double bound = most > 0 ? most : std::numeric_limits<double>::infinity();
  double squares = *sum / (scale * scale);
  if (rounds) {
    const double norm = static_cast<float>(std::sqrt(squares));
    squares = norm * norm;  // exactly: 48 bits
  }
  const ClipResult result = clip_coefficient(squares, bound);
  clip[kClipFactor] = result.skip ? -1.0 : result.coefficient / scale;
  clip[kGradientNorm] = result.norm;
}

// Whether a step leaves the states alone, by the factor of its gradients.
inline bool is_skipped(const double* scalars, double factor) {
  return factor < 0 || scalars[kInactive] != 0;
}

inline AdamwScalars scalars_of_step(const double* scalars, double factor) {
  return {.learning_rate = scalars[kLearningRate],
          .beta1 = scalars[kBeta1],
          .beta2 = scalars[kBeta2],
          .eps = scalars[kEpsilon],
          .weight_decay = scalars[kWeightDecay],
          .bias_correction1 = scalars[kBiasCorrection1],
          .bias_correction2 = scalars[kBiasCorrection2],
          .clip_coefficient = factor,
          .skip = is_skipped(scalars, factor)};
}

// Of Adamw, Sgd or FactoredMoments.
template <typename Update>
RoundingDraws draws_of_step(const Update& x) {
  return {x.key, static_cast<std::uint32_t>(x.scalars[kUpdateNumber]), x.place};
}

inline AdamwShard shard_of(const Adamw& x) {
  return {.master = x.master,
          .m = x.m,
          .v = x.v,
          .grad = x.grad,
          .param = x.param,
          .n = x.n,
          .flat_offset = x.flat_offset,
          .decay_elements = x.decay_elements,
          .draws = draws_of_step(x)};
}

inline void adamw_of_step(const Adamw& x) {
  adamw(scalars_of_step(x.scalars, x.clip[kClipFactor]), shard_of(x));
}

inline void adamw_8bit_of_step(const AdamwBlocks& x) {
  if (x.block > kMostBlock)
    throw_bad_input("blocks of " + std::to_string(x.block) + " moments; up to " +
                    std::to_string(kMostBlock) + " are possible");
  adamw_8bit(scalars_of_step(x.adamw.scalars, x.adamw.clip[kClipFactor]),
             {shard_of(x.adamw), x.m_scale, x.v_scale, x.block});
}

inline SgdShard shard_of(const Sgd& x) {
  return {.master = x.master,
          .m = x.m,
          .grad = x.grad,
          .param = x.param,
          .n = x.n,
          .flat_offset = x.flat_offset,
          .decay_elements = x.decay_elements,
          .draws = draws_of_step(x)};
}

inline void sgd_of_step(const Sgd& x) {
  sgd(scalars_of_step(x.scalars, x.clip[kClipFactor]), shard_of(x));
}

inline void muon_momentum_of_step(const MuonMomentum& x) {
  muon_momentum(scalars_of_step(x.scalars, x.clip[kClipFactor]), {.m = x.m,
                                                                  .grad = x.grad,
                                                                  .update = x.update,
                                                                  .n = x.n,
                                                                  .flat_offset = x.flat_offset,
                                                                  .draws = draws_of_step(x)});
}

inline void muon_of_step(const Sgd& x) {
  muon(scalars_of_step(x.scalars, x.clip[kClipFactor]), shard_of(x));
}

inline void adafactor_gradient_of_step(const Elements& grad, const double* scalars,
                                       const double* clip, const Elements& update, std::int64_t n) {
  const double factor = is_skipped(scalars, clip[kClipFactor]) ? 0 : clip[kClipFactor];
  adafactor_gradient(grad, factor, update, n);
}

inline void adafactor_factors_of_step(const FactoredMoments& x) {
  if (is_skipped(x.scalars, x.clip[kClipFactor])) {
    *x.squares = 0;
    return;
  }
  adafactor_factors(x, x.scalars[kUpdateNumber] + 1, draws_of_step(x));
}

inline void adafactor_scale_of_step(const FactoredPart& part, const Elements& update,
                                    const double* size, const double* squares,
                                    const double* scalars) {
  adafactor_scale(part, update,
                  {*size, *squares, scalars[kLearningRate], scalars[kUpdateNumber] + 1});
}

template <void (*host_kernel)(const Call&)>
constexpr DispatchEntry host_row(KernelId kernel) {
  return {kernel, nullptr, [](const Call& c, GemmCache&) { host_kernel(c); }};
}

template <typename T>
constexpr auto state_rows() {
  using K = KernelId;
  using C = Compute<T>;
  using H = StoredHalves;
  return std::to_array<DispatchEntry>({
      host_row<load_batch>(K::kLoadBatch),
      host_row<load_pixels>(K::kLoadPixels),
      host_row<step_scalars>(K::kStepScalars),
      host_row<report>(K::kReport),
      row(K::kAccumulate, read_two_states<C, H>, [](auto... x) { accumulate(x...); }),
      row(K::kCast, read_two_states<C, H>, [](auto... x) { cast(x...); }),
      row(K::kFillZero, read_fill_zero,
          [](std::byte* data, std::int64_t bytes) {
            fill_zero(reinterpret_cast<Bf16*>(data),
                      bytes / static_cast<std::int64_t>(sizeof(Bf16)));
          }),
      row(K::kSumSquares, read_sum_squares<C, H>, [](auto... x) { sum_squares(x...); }),
      row(K::kClipCoefficient, read_clip_coefficient,
          [](auto... x) { clip_coefficient_of_step(x...); }),
      row(K::kAdamW, read_adamw, [](const Adamw& x) { adamw_of_step(x); }),
      row(K::kAdamW8Bit, read_adamw_8bit, [](const AdamwBlocks& x) { adamw_8bit_of_step(x); }),
      row(K::kMuonMomentum, read_muon_momentum,
          [](const MuonMomentum& x) { muon_momentum_of_step(x); }),
      row(K::kOrthogonalise, read_orthogonalise<C>, [](const auto& x) { orthogonalise(x); }),
      row(K::kMuon, read_muon, [](const Sgd& x) { muon_of_step(x); }),
      row(K::kAdafactorGradient, read_adafactor_gradient,
          [](const auto&... x) { adafactor_gradient_of_step(x...); }),
      row(K::kAdafactorSums, read_adafactor_sums, [](const auto&... x) { adafactor_sums(x...); }),
      row(K::kAdafactorFactors, read_adafactor_factors,
          [](const FactoredMoments& x) { adafactor_factors_of_step(x); }),
      row(K::kAdafactorScale, read_adafactor_scale,
          [](const auto&... x) { adafactor_scale_of_step(x...); }),
      row(K::kSgd, read_sgd<1>, [](const Sgd& x) { sgd_of_step(x); }),
      row(K::kSgdMomentum, read_sgd<2>, [](const Sgd& x) { sgd_of_step(x); }),
  });
}

}  // namespace zplan::exec::cpu
