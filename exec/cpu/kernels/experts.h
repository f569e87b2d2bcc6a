// Routing of tokens to experts [Fedus21 sec 2.1]: scores and choices, rows, and the auxiliary loss
// [Fedus21 Eq.4-6] with its gradient. Scores are computed in the type of statistics; of equal ones
// the first expert is chosen, so that results follow from the logits alone.
#pragma once

#include "exec/cpu/kernels/half.h"
#include "exec/kernels/compute_type.h"
#include "exec/kernels/experts.h"
#include "exec/kernels/read_experts.h"

namespace zplan::exec::cpu {

template <typename T>
void choose_experts(const RouterShape& shape, const ExpertChoice<T, Compute<T>>& x);
template <typename T>
void choose_experts_backward(const RouterShape& shape,
                             const ExpertChoiceBackward<T, Compute<T>>& x);
template <typename T>
void balance_experts(const RouterShape& shape, const ExpertBalance<T, Compute<T>>& x);

// Throws Error where a rank is given more rows than there is room for.
void place_rows(const RowPlacing& x);
void select_rows(const RowSelection& x);

void count_choices(const ChoiceCounts& x);
// M: the type of the master copy.
template <typename M>
void balance_bias(const BiasBalance<M>& x);

// Rows of tokens in the order of experts, and zeros behind them: g parts of r rows.
template <typename T>
void dispatch_rows(const RowShape& shape, T* sent, const T* x, const std::int32_t* rows,
                   const std::int32_t* counts);
// Sums of a token's rows, times weights where there are some.
template <typename T>
void combine_rows(const RowShape& shape, T* y, const T* x, const std::int32_t* rows,
                  const Compute<T>* weights, bool adds);
template <typename T>
void combine_rows_backward(const RowShape& shape, const CombineBackward<T>& x);

template <typename T>
void gate_rows(const RowGating<T, Compute<T>>& x);
template <typename T>
void gate_rows_backward(const RowGatingBackward<T, Compute<T>>& x);

}  // namespace zplan::exec::cpu
