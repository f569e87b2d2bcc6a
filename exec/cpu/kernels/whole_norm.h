// RMSNorm of several heads together, as norm.h has it of whole rows: y = x rstd gain in place, with
// rstd = 1 / sqrt(sum(x^2) / width + eps) [Zhang19]. The sum comes from a step of its own, so that
// ranks that share the heads add theirs up; so does that of backward. G is the type of the gradient
// of the gain.
#pragma once

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/whole_norm.h"

namespace zplan::exec::cpu {

// 2 flop per element, each read and written once.
template <typename T>
void whole_norm_squares(const HeadNormShape& shape, const WholeNormSquares<T>& x);

// 2 flop per element, each read and written once.
template <typename T>
void whole_norm_forward(const HeadNormShape& shape, const WholeNormForward<T>& x);

// 3 flop per element; dy and x are read once.
template <typename T>
void whole_norm_products(const HeadNormShape& shape, const WholeNormProducts<T>& x);

// The gradients are dx = rstd (g - n sum(g n) / width) and dgain = sum dy n, with n = x rstd and
// g = dy gain. They take 8 flop per element; dy and x are read twice, dx is written once.
template <typename T, typename G = T>
void whole_norm_backward(const HeadNormShape& shape, const WholeNormBackward<T, G>& x);

}  // namespace zplan::exec::cpu
