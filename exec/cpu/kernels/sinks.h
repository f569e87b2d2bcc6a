// Attention sinks [Xiao24] beside a fused attention: every row of scores has one more, z of its
// head, of no value. With l the log-sum-exp of the others, l' = log(exp(l) + exp(z)):
//   forward   out' = out exp(l - l'), and lse becomes l'
//   backward  that of attention computes the probabilities from l' and D = dout out', which are
//             right as they are; dz = - sum over rows of exp(z - l') D
#pragma once

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

// b s a v flop; out moved twice.
template <typename T>
void sinks_forward(const SinksShape& shape, const SinksForward<T>& x);
// 2 b s a v flop; dout and out read once.
template <typename T, typename G = T>
void sinks_backward(const SinksShape& shape, const SinksBackward<T, G>& x);

}  // namespace zplan::exec::cpu
