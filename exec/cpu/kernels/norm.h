// Normalisation over the hidden dimension, with statistics in Compute<T>.
//   LayerNorm  y = (x - mean) rstd gain + bias, rstd = 1 / sqrt(variance + eps), variance over h
//              (biased). [Ba16]
//   RMSNorm    y = x rstd gain, rstd = 1 / sqrt(mean(x^2) + eps). [Zhang19]
// eps is that of GPT-2 [Radford19] and of Llama 2 and 3 [Touvron23].
// G is the type of the gradients of gain and bias.
// Left out: fusion with the residual.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"

namespace zplan::exec::cpu {

inline constexpr double kNormEps = 1e-5;

struct NormShape {
  std::int64_t tokens, hidden;
};

template <typename T>
struct LayernormForward {
  T* y;              // [T, h], overwritten
  Compute<T>* mean;  // [T], overwritten, kept for backward
  Compute<T>* rstd;  // [T], overwritten, kept for backward
  const T* x;
  const T* gain;  // [h]
  const T* bias;  // [h]
};

template <typename T, typename G = T>
struct LayernormBackward {
  T* dx;     // [T, h]
  G* dgain;  // [h]
  G* dbias;  // [h]
  const T* dy;
  const T* x;
  const Compute<T>* mean;
  const Compute<T>* rstd;
  const T* gain;
  bool accumulate_dx;          // false overwrites, true adds
  bool accumulate_parameters;  // the same for dgain and dbias
};

template <typename T>
struct RmsnormForward {
  T* y;              // [T, h], overwritten
  Compute<T>* rstd;  // [T], overwritten, kept for backward
  const T* x;
  const T* gain;  // [h]
};

template <typename T, typename G = T>
struct RmsnormBackward {
  T* dx;     // [T, h]
  G* dgain;  // [h]
  const T* dy;
  const T* x;
  const Compute<T>* rstd;
  const T* gain;
  bool accumulate_dx, accumulate_parameters;
};

// 8 T h flop; x read three times from cache, once from memory, y written once.
template <typename T>
void layernorm_forward(const NormShape& shape, const LayernormForward<T>& x);

// With n = (x - mean) rstd and g = dy gain: dx = rstd (g - mean(g) - n mean(g n)),
// dgain = sum dy n, dbias = sum dy. 14 T h flop; dy and x read twice, dx written once.
template <typename T, typename G = T>
void layernorm_backward(const NormShape& shape, const LayernormBackward<T, G>& x);

// 4 T h flop; x read twice from cache, once from memory, y written once.
template <typename T>
void rmsnorm_forward(const NormShape& shape, const RmsnormForward<T>& x);

// With n = x rstd and g = dy gain: dx = rstd (g - n mean(g n)), dgain = sum dy n. 10 T h flop; dy
// and x read twice, dx written once.
template <typename T, typename G = T>
void rmsnorm_backward(const NormShape& shape, const RmsnormBackward<T, G>& x);

}  // namespace zplan::exec::cpu
