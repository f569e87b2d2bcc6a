// Global-norm clipping and AdamW on a flat range of parameters.
// All arithmetic of adamw is in T (float: as torch's fused kernel does); the bias corrections and
// the sums of squares are in double.
// Left out: AMSGrad, stochastic rounding, unscaling of half-precision gradients.
#pragma once

#include <cstdint>

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

// Values of one step, equal for all parameters.
struct AdamwScalars {
  double learning_rate, beta1, beta2, eps, weight_decay;
  double bias_correction1, bias_correction2;  // 1 - beta^t, t = 1 for the first update
  double clip_coefficient;                    // multiplies every gradient
  bool skip;                                  // true: only the copy to param is made
};

template <typename T>
struct Adamw {
  T* master;      // [n], updated
  T* m;           // [n], updated, first moment
  T* v;           // [n], updated, second moment
  const T* grad;  // [n]
  T* param;       // [n], overwritten with the new master; null: none
  std::int64_t n;
  std::int64_t flat_offset;     // place of element 0 in its flat unit
  std::int64_t decay_elements;  // the first elements of the flat unit, the ones that decay
};

// g = clip grad; p *= 1 - lr wd (decaying elements); m = b1 m + (1 - b1) g;
// v = b2 v + (1 - b2) g^2; p -= lr / bias_correction1 m / (sqrt(v / bias_correction2) + eps).
// [Loshchilov19], in the order of torch.optim.AdamW [PyTorch]. About 15 n flop; 7 n elements moved
// (8 n with param).
template <typename T>
void adamw(const AdamwScalars& scalars, const Adamw<T>& x);

}  // namespace zplan::exec::cpu
