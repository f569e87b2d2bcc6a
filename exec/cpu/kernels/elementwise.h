// Elementwise kernels over n elements of any shape. out may be the same pointer as an input; other
// overlaps are not allowed. Arithmetic in Compute<T>.
#pragma once

#include <cstdint>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

// Another function than the tanh form of GELU is exact GELU, y = x/2 (1 + erf(x / sqrt 2)), SiLU or
// ReLU. The tanh form: y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3). [Hendrycks16]
// Evaluated as x sigmoid(2 u), the same function without cancellation. 29 n flop (exp as 20), 2 n
// elements moved.
template <typename T>
void gelu_forward(T* y, const T* x, std::int64_t n,
                  ActivationFunction function = ActivationFunction::kGeluTanh);

// dx = dy gelu'(x), overwritten. 38 n flop (exp as 20), 3 n elements moved.
template <typename T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t n,
                   ActivationFunction function = ActivationFunction::kGeluTanh);

// y = silu(gate) up, or another function of the gate, with x = gate | up, silu(z) = z sigmoid(z).
// [Shazeer20] 24 T f flop (exp as 20), 3 T f elements moved.
template <typename T>
void swiglu_forward(const SwigluShape& shape, T* y, const T* x);  // y [T, f], x [T, 2 f]
// dx = dgate | dup, overwritten; may be x. 30 T f flop (exp as 20), 5 T f elements moved.
template <typename T>
void swiglu_backward(const SwigluShape& shape, T* dx, const T* dy, const T* x);

// y = cap tanh(x / cap): 24 n flop (tanh as 22), 2 n elements moved. [Gemma24]
template <typename T>
void soft_cap_forward(T* y, const T* x, std::int64_t n, double cap);
// dx, the gradient of y, becomes that of x. 27 n flop, 3 n elements moved.
template <typename T>
void soft_cap_backward(T* dx, const T* x, std::int64_t n, double cap);

// out = x + y: n flop, 3 n elements moved.
// x = factor x: 2 n elements moved.
template <typename T>
void scale(T* x, std::int64_t n, double factor);

template <typename T>
void residual_add(T* out, const T* x, const T* y, std::int64_t n);

// out = x + y + bias, out [rows, columns], bias [columns]: 2 n flop, 3 n elements moved.
template <typename T>
void bias_residual_add(T* out, const T* x, const T* y, const T* bias, std::int64_t rows,
                       std::int64_t columns);

// Between types of the same Compute. y += x: n flop, 3 n elements moved.
template <typename To, typename From>
void accumulate(To* y, const From* x, std::int64_t n);

// y = x, rounded to the nearest: 2 n elements moved.
template <typename To, typename From>
void cast(To* y, const From* x, std::int64_t n);

// y = 0: n elements moved.
template <typename T>
void fill_zero(T* y, std::int64_t n);

// out[columns] (+)= sum over rows of in[rows, columns], in row order. rows * columns flop.
template <typename T, typename G>
void column_sums(G* out, const T* in, std::int64_t rows, std::int64_t columns, bool accumulate);

}  // namespace zplan::exec::cpu
