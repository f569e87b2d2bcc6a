// Global-norm clipping and updates of a flat range of parameters.
// Arithmetic of adamw is in double when all states are, else in float (as torch's fused kernel
// does); the bias corrections and the sums of squares are in double. States of 16 bits are rounded
// stochastically, for an update is often less than half a unit in their last place [Gupta15].
// Left out: AMSGrad.
#pragma once

#include <cstdint>

#include "exec/kernels/arguments.h"
#include "planner/core/philox.h"
#include "planner/program/job/ops.h"

namespace zplan::exec::cpu {

// *sum += sum of x[i]^2, in double, in an order set by n alone. 2 n flop, n elements read.
template <typename T>
void sum_squares(double* sum, const T* x, std::int64_t n);

struct ClipResult {
  double norm;         // sqrt of the global sum of squares
  double coefficient;  // min(1, max_norm / (norm + 1e-6)); 0 when skip
  bool skip;           // the norm is not finite: leave the state unchanged this step
};

// As torch.nn.utils.clip_grad_norm_. [PyTorch] An infinite max_norm never clips.
ClipResult clip_coefficient(double global_sum_of_squares, double max_norm);

// Elements of one step, equal for all parameters.
struct AdamwScalars {
  double learning_rate, beta1, beta2, eps, weight_decay;
  double bias_correction1, bias_correction2;  // 1 - beta^t, t = 1 for the first update
  double clip_coefficient;                    // multiplies every gradient
  bool skip;                                  // true: only the copy to param is made
};

// Where the random bits of an element come from: Philox by (flat index / 2, step, place), so that
// they do not depend on how the unit is cut.
struct RoundingDraws {
  PhiloxKey key{};
  std::uint32_t step = 0;
  std::uint32_t place = 0;  // which unit, layer and tile
};

struct AdamwShard {
  Elements master;  // [n], updated
  Elements m;       // [n], updated, first moment
  Elements v;       // [n], updated, second moment; of the type of m
  Elements grad;    // [n], only read
  Elements param;   // [n], overwritten with the new master
  std::int64_t n;
  std::int64_t flat_offset;     // place of element 0 in its flat unit
  std::int64_t decay_elements;  // the first elements of the flat unit, the ones that decay
  RoundingDraws draws{};
};

// The same with moments of a byte each (exec/kernels/dynamic_codes.h), in blocks of neighbours of
// which each has a scale.
struct AdamwBlockShard {
  AdamwShard shard;    // m and v: u8
  Elements m_scale;    // [ceil(n / block)], updated, in the type of the computation
  Elements v_scale;    // [ceil(n / block)], updated
  std::int64_t block;  // at most kMostBlock elements
};
inline constexpr std::int64_t kMostBlock = 4096;

struct SgdShard {
  Elements master;  // [n], updated
  Elements m;       // [n], updated; null: no momentum
  Elements grad;    // [n], only read
  Elements param;   // [n], overwritten with the new master
  std::int64_t n;
  std::int64_t flat_offset, decay_elements;  // as of AdamwShard
  RoundingDraws draws{};
};

// g = clip grad; p *= 1 - lr wd (decaying elements); m = b1 m + (1 - b1) g;
// v = b2 v + (1 - b2) g^2; p -= lr / bias_correction1 m / (sqrt(v / bias_correction2) + eps).
// [Loshchilov19], in the order of torch.optim.AdamW [PyTorch]. About 15 n flop; 7 n elements moved
// (8 n with param). Either all of the types are f64 or none is.
void adamw(const AdamwScalars& scalars, const AdamwShard& x);

// Reads the moments of a block, updates as adamw does in the type of the scales, and writes the
// moments as numbers of the nearest values times the greatest of their block, which becomes its
// scale. [Dettmers22 sec 2] About 35 n flop.
void adamw_8bit(const AdamwScalars& scalars, const AdamwBlockShard& x);

// g = clip grad + wd p (decaying elements); with momentum m = beta1 m + g, g = m; p -= lr g. In the
// order of torch.optim.SGD [PyTorch]. About 6 n flop.
void sgd(const AdamwScalars& scalars, const SgdShard& x);

}  // namespace zplan::exec::cpu
