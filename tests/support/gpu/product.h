// A product of the stand-in's cuBLASLt: how it is described, by which rules it is judged, and what
// it computes. Internal to tests/support/gpu.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gpu/machine.h"
#include "tests/support/gpu/matrices.h"

namespace zplan::stand_in {

struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t bias_type = static_cast<cudaDataType_t>(-1);
  void *bias = nullptr, *aux = nullptr;
  std::int64_t aux_ld = 0;
  const float *a_scale = nullptr, *b_scale = nullptr;
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t a = 256, b = 256, c = 256, d = 256, schemes = 0;
};

// What is left of it in cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t problem = 0;  // a hash
  std::uint32_t a = 0, b = 0, c = 0, d = 0, bias = 0, aux = 0;
  std::uint64_t workspace = 0;
  std::uint64_t number = 0;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

struct Problem {
  const Description* description;
  const Matrix *a, *b, *c, *d;
};

template <typename To, typename From>
To& of(From* handle) {
  return *reinterpret_cast<To*>(handle);
}
template <typename To, typename From>
const To& of(const From* handle) {
  return *reinterpret_cast<const To*>(handle);
}

struct Operands {
  float alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
};

inline bool has_bias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
         e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
}
inline bool writes_bias(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
}
inline bool has_aux(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || e == CUBLASLT_EPILOGUE_DGELU;
}
inline bool is_fp8(const Problem& p) { return is_fp8(p.a->type) || is_fp8(p.b->type); }
inline bool is_known(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_DEFAULT || has_bias(e) || has_aux(e);
}

// ---- rules (product_rules.cpp) --------------------------------------------------------------

std::uint32_t alignment_of(const void* address);
std::uint64_t hash_of(const Problem& p);
// Why the library would not take it; empty: it does.
std::string fault_of(const Problem& p);
// Whether it has algorithms with the epilogue for operands that are aligned so.
bool offers(const Problem& p, const Preference& preference);
// Of an operand that is not where the algorithm wants it.
std::string fault_of(const Problem& p, const Operands& x, const Algorithm& algorithm,
                     std::size_t workspace);
std::string overlap_of(const Problem& p, const Operands& x, cudaStream_t stream);
std::vector<Access> accesses_of(const Problem& p, const Operands& x, const Algorithm& algorithm);
// Makes the fault a finding.
cublasStatus_t refuse(const char* function, const std::string& fault);

// ---- values (product_values.cpp) ------------------------------------------------------------

void multiply(const Description& e, const Matrix& a, const Matrix& b, const Matrix& c,
              const Matrix& d, const Operands& x, std::size_t workspace);

}  // namespace zplan::stand_in
