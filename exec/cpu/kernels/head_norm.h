// RMSNorm of single heads, as norm.h has it of whole rows: y = x rstd gain in place, with
// rstd = 1 / sqrt(mean(x^2) + eps) over the elements of a head [Zhang19], eps that of norm.h.
// G is the type of the gradient of the gain.
#pragma once

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/head_norm.h"

namespace zplan::exec::cpu {

// 4 flop per element; each is read once from memory, then from cache, and written twice.
template <typename T>
void head_norm_forward(const HeadNormShape& shape, const HeadNormForward<T>& x);

// With n = x rstd and g = dy gain: dx = rstd (g - n mean(g n)), dgain = sum dy n. 10 flop per
// element; dy and x are read twice, dx is written once.
template <typename T, typename G = T>
void head_norm_backward(const HeadNormShape& shape, const HeadNormBackward<T, G>& x);

}  // namespace zplan::exec::cpu
