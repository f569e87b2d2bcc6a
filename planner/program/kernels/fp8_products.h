// Products of layers whose operands are cast to fp8 on the way (LayerProducts::kFp8): which these
// are, and the scratch that the casts take. A product of other sizes is one of the operands as they
// are stored. Operands have one scale each, that of the moment: the greatest magnitude of all that
// the call has of an operand becomes the greatest of the format. Gradients are e5m2, all else e4m3
// [TransformerEngine].
#pragma once

#include <cstdint>
#include <span>

#include "planner/core/units.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {

// [cuBLAS, cublasLtMatmul] addresses and sizes of matrices in fp8 are multiples of 16 bytes.
inline constexpr std::int64_t kFp8Step = 16;
constexpr bool fits_fp8(const Product& p) {
  return p.m % kFp8Step == 0 && p.n % kFp8Step == 0 && p.k % kFp8Step == 0;
}

// Whether the set computes this call in fp8. No device has a body for products of experts, which
// are as large as their tokens choose: they count as such.
bool multiplies_in_fp8(const KernelSet& set, KernelId kernel, std::span<const View> operands);

// What casting both operands of 16 bits moves: each is read for its greatest, read again, and a
// byte per element is written. [derived]
Bytes fp8_cast_bytes(const Product& p);
inline constexpr int kFp8CastKernels = 4;

// Where what casts leave stands in the scratch of a product [m, k] x [k, n]: the codes of either
// operand, a byte each; then of each a scale and the maxima of parts of it that the scale is made
// of, all float32. `rest` is the first byte that is free.
inline constexpr std::int64_t kFp8Parts = 1023;
struct Fp8Scratch {
  Bytes a{0}, b{0}, a_scale{0}, b_scale{0}, rest{0};
};
Fp8Scratch fp8_scratch(const Product& p);

}  // namespace zplan
