// The register-tiled matrix product under the blocked GEMM and the attention tiles:
// C[m,n] (+)= A[m,k] B[k,n], A with any two strides, B and C row-major with unit column stride.
// Work: 2 m n k flop. Each element of C is one chain of multiply-adds in the order of k, whatever
// tile it falls into, so results do not depend on how a caller cuts its matrices into row or column
// blocks. Meant for operands that sit in cache: it does no blocking of its own. [Goto08]
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

template <typename T>
struct TileGemm {
  std::int64_t m, n, k;
  const T* a;  // element (i, p) at a[i * a_row_stride + p * a_column_stride]
  std::int64_t a_row_stride, a_column_stride;
  const T* b;  // [k, n], rows ldb apart
  std::int64_t ldb;
  T* c;  // [m, n], rows ldc apart
  std::int64_t ldc;
  bool accumulate;  // false: C is overwritten
};

template <typename T>
void tile_gemm(const TileGemm<T>& g);

// Rows of C that one register tile covers: rows * 2 accumulators + 2 columns of B + 1 broadcast
// must fit into the register file (32 registers with AVX-512, else 16). [derived]
#if defined(__AVX512F__)
inline constexpr std::int64_t kTileRows = 12;
#else
inline constexpr std::int64_t kTileRows = 6;
#endif

// Columns of B that one register tile covers.
template <typename T>
inline constexpr std::int64_t kTileColumns = 2 * kVectorLanes<T>;

}  // namespace zplan::exec::cpu
