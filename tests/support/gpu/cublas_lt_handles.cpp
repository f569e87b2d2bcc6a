// cuBLASLt of the stand-in GPU: what products are described with.
#include <cstring>

#include "tests/support/gpu/product.h"

namespace zplan::stand_in {
namespace {

template <typename Value>
cublasStatus_t set(Value& to, const void* from, std::size_t size, const char* function) {
  if (size != sizeof to) return refuse(function, "a value of another size");
  std::memcpy(&to, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace zplan::stand_in

using namespace zplan::stand_in;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const cudaError_t error = call("cublasLtCreate", [](Machine&, Lock&) { return cudaSuccess; });
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "a status of the stand-in"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Matrix{
      type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld, 1, 0});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of<Matrix>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t size) {
  const char* const function = "cublasLtMatrixLayoutSetAttribute";
  Matrix& matrix = of<Matrix>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return set(matrix.batch, value, size, function);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(matrix.stride, value, size, function);
  return refuse(function, "an attribute that the stand-in does not know");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &of<Description>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t size) {
  const char* const function = "cublasLtMatmulDescSetAttribute";
  Description& x = of<Description>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(x.a, value, size, function);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(x.b, value, size, function);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(x.epilogue, value, size, function);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(x.bias_type, value, size, function);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(x.bias, value, size, function);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(x.aux_ld, value, size, function);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(x.aux, value, size, function);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return set(x.a_scale, value, size, function);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return set(x.b_scale, value, size, function);
    default:
      return refuse(function, "an attribute that the stand-in does not know");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t size) {
  const char* const function = "cublasLtMatmulPreferenceSetAttribute";
  Preference& x = of<Preference>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(x.workspace, value, size, function);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(x.schemes, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(x.a, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(x.b, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(x.c, value, size, function);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(x.d, value, size, function);
    default:
      return refuse(function, "an attribute that the stand-in does not know");
  }
}
