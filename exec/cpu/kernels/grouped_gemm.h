// Products of rows with the matrix of the expert that they are of: x [g, r, k] holds g parts, in
// each the rows of the experts one after the other, as counts [g, e] says; what is behind them is 0
// in a result and not read. One product of this folder for each part and expert (gemm.h).
#pragma once

#include "exec/cpu/kernels/gemm.h"
#include "exec/kernels/experts.h"

namespace zplan::exec::cpu {

// y [g, r, n] = x w, w [e, k, n], or adds it to the rows that experts have.
template <typename T>
void grouped_forward(const GroupedShape& shape, T* y, const T* x, const T* w,
                     const std::int32_t* counts, bool adds, Scratch scratch);
// dx [g, r, k] = dy w^T, or adds it so.
template <typename T>
void grouped_input_gradient(const GroupedShape& shape, T* dx, const T* dy, const T* w,
                            const std::int32_t* counts, bool adds, Scratch scratch);
// dw [e, k, n] = x^T dy, or adds it; G as that of a gemm.
template <typename T, typename G>
void grouped_weight_gradient(const GroupedShape& shape, G* dw, const T* x, const T* dy,
                             const std::int32_t* counts, bool adds, Scratch scratch);

// To `columns` columns of the rows of each expert, from `first` on, its bias [e, columns] is added.
template <typename T>
void add_expert_biases(const GroupedShape& shape, const ExpertBiases& at, T* y, const T* bias,
                       const std::int32_t* counts);
// dbias [e, columns] = the sums of these columns of dy over the rows of each expert, part after
// part, or adds them.
template <typename T, typename G>
void expert_bias_gradient(const GroupedShape& shape, const ExpertBiases& at, G* dbias, const T* dy,
                          const std::int32_t* counts, bool adds);

// For any product, whatever the counts.
template <typename T>
Bytes grouped_scratch_bytes(const GroupedShape& shape);

}  // namespace zplan::exec::cpu
