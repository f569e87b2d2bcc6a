// Normalisation over the hidden dimension, with statistics in Compute<T>.
//   LayerNorm  y = (x - mean) rstd gain + bias, rstd = 1 / sqrt(variance + eps), variance over h
//              (biased). [Ba16]
//              Without a bias, or a gain, it is 0, or 1, and has no gradient.
//   RMSNorm    y = x rstd gain, rstd = 1 / sqrt(mean(x^2) + eps). [Zhang19]
// G is the type of the gradients of gain and bias.
// Left out: fusion with the residual.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

// 8 T h flop; x read three times from cache, once from memory, y written once.
template <typename T>
void layernorm_forward(const NormShape& shape, const NormForward<T>& x);

// With n = (x - mean) rstd and g = dy gain: dx = rstd (g - mean(g) - n mean(g n)),
// dgain = sum dy n, dbias = sum dy. 14 T h flop; dy and x read twice, dx written once.
template <typename T, typename G = T>
void layernorm_backward(const NormShape& shape, const NormBackward<T, G>& x);

// 4 T h flop; x read twice from cache, once from memory, y written once.
template <typename T>
void rmsnorm_forward(const NormShape& shape, const NormForward<T>& x);

// With n = x rstd and g = dy gain: dx = rstd (g - n mean(g n)), dgain = sum dy n. 10 T h flop; dy
// and x read twice, dx written once.
template <typename T, typename G = T>
void rmsnorm_backward(const NormShape& shape, const NormBackward<T, G>& x);

}  // namespace zplan::exec::cpu
