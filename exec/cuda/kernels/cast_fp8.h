// Casts of the operands of products to fp8 (planner/program/kernels/fp8_products.h), with the
// numbers of round_fp8 on the CPU: codes of x over its scale, which is the greatest magnitude of x
// over that of the format, or 1 where x is zero. x is read twice, a byte per element is written.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace zplan::exec::cuda {

// What A and B of a product are cast to.
enum class Fp8Format : std::uint8_t { kNone, kE4m3, kE5m2 };

template <typename T>
struct CastFp8 {
  std::uint8_t* codes;         // [rows, columns] or, transposed, [columns, rows]; on 16 bytes
  float* scale;                // [1], what a code is to be multiplied with
  float* parts;                // [kFp8Parts], scratch
  const T* x;                  // [rows, columns]
  std::int64_t rows, columns;  // multiples of kFp8Step
  Fp8Format format;
  bool transposes;
};

template <typename T>
void cast_fp8(cudaStream_t stream, const CastFp8<T>& cast);

// out[rows] (+)= scale times the sums over columns of codes [rows, columns], in float, in an order
// set by the shape alone. columns is a multiple of kFp8Step, codes lie on 16 bytes.
template <typename G>
void row_sums_fp8(cudaStream_t stream, G* out, const std::uint8_t* codes, const float* scale,
                  std::int64_t rows, std::int64_t columns, Fp8Format format, bool accumulate);

}  // namespace zplan::exec::cuda
