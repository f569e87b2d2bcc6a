// Column-major matrices of the stand-in's cuBLASLt, element by element.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <library_types.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/support/gpu/clocks.h"

namespace zplan::stand_in {

inline bool is_fp8(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

inline std::size_t size_of_type(cudaDataType_t type) {
  return is_fp8(type) ? 1 : type == CUDA_R_32F ? 4 : 2;
}

// Columns `ld` elements apart, matrices of a batch `stride`.
struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, ld = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;

  // From the first to the last element.
  Access access(const void* data, bool writes) const {
    const std::int64_t elements = (batch - 1) * stride + (columns - 1) * ld + rows;
    return {static_cast<const std::byte*>(data),
            static_cast<std::size_t>(elements) * size_of_type(type), writes};
  }
};

inline float load(cudaDataType_t type, const void* data, std::int64_t element) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[element];
  if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(data)[element]);
  if (is_fp8(type)) {
    const auto code = static_cast<const __nv_fp8_storage_t*>(data)[element];
    const auto format = type == CUDA_R_8F_E4M3 ? __NV_E4M3 : __NV_E5M2;
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, format)));
  }
  if (type != CUDA_R_16BF) std::abort();
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[element]);
}

inline void store(cudaDataType_t type, void* data, std::int64_t element, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[element] = value;
  } else if (type == CUDA_R_16F) {
    static_cast<__half*>(data)[element] = __float2half(value);
  } else {
    static_cast<__nv_bfloat16*>(data)[element] = __float2bfloat16(value);
  }
}

inline float rounded(cudaDataType_t type, float value) {
  float stored = 0;
  store(type, &stored, 0, value);
  return load(type, &stored, 0);
}

// Row-major.
struct Values {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> all;

  float& at(std::int64_t i, std::int64_t j) {
    return all[static_cast<std::size_t>(i * columns + j)];
  }
  const float& at(std::int64_t i, std::int64_t j) const {
    return all[static_cast<std::size_t>(i * columns + j)];
  }
};

inline Values load(const Matrix& m, const void* data, std::int64_t batch, bool transposed) {
  Values values{m.rows, m.columns,
                std::vector<float>(static_cast<std::size_t>(m.rows * m.columns))};
  if (transposed) std::swap(values.rows, values.columns);
  for (std::int64_t j = 0; j < m.columns; ++j)
    for (std::int64_t i = 0; i < m.rows; ++i)
      (transposed ? values.at(j, i) : values.at(i, j)) =
          load(m.type, data, batch * m.stride + j * m.ld + i);
  return values;
}

// The tanh form, as in exec/cuda/kernels/elementwise.h.
inline constexpr float kGeluRoot = 0.7978845608028654F, kGeluCube = 0.044715F;
inline float gelu(float x) {
  return 0.5F * x * (1 + std::tanh(kGeluRoot * (x + kGeluCube * x * x * x)));
}
inline float gelu_slope(float x) {
  const float t = std::tanh(kGeluRoot * (x + kGeluCube * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kGeluRoot * (1 + 3 * kGeluCube * x * x);
}

}  // namespace zplan::stand_in
