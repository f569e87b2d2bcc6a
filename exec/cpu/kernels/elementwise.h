// Elementwise kernels over n elements of any shape. out may be the same pointer as an input; other
// overlaps are not allowed.
// Left out: dropout, exact (erf) GELU.
#pragma once

#include <cstdint>

namespace zplan::exec::cpu {

// tanh form of GELU: y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3). [Hendrycks16]
// Evaluated as x sigmoid(2 u), the same function without cancellation. 29 n flop (exp as 20), 2 n
// elements moved.
template <typename T>
void gelu_forward(T* y, const T* x, std::int64_t n);

// dx = dy gelu'(x), overwritten. 38 n flop (exp as 20), 3 n elements moved.
template <typename T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t n);

// out = x + y: n flop, 3 n elements moved.
template <typename T>
void residual_add(T* out, const T* x, const T* y, std::int64_t n);

// y += x: n flop, 3 n elements moved.
template <typename T>
void accumulate(T* y, const T* x, std::int64_t n);

// y = 0: n elements moved.
template <typename T>
void fill_zero(T* y, std::int64_t n);

}  // namespace zplan::exec::cpu
