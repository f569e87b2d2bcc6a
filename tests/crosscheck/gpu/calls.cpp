#include "tests/crosscheck/gpu/calls.h"

#include <algorithm>

#include "exec/cuda/driver_api.h"
#include "tests/support/gpu/machine.h"

namespace zplan::stand_in {
namespace {

struct Layouts {
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
};

template <typename Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value);
}

cublasLtMatmulDesc_t describe(const Product& p) {
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  if (p.has_vector) set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, device(64));
  set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.vector_type);
  if (p.has_aux) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, device(1024));
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux_ld);
  return description;
}

cublasLtMatmulPreference_t prefer() {
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const std::uint64_t workspace = 1024;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace, sizeof workspace);
  return preference;
}

cublasLtMatmulDesc_t describe(const Fp8Product& p, const void* a_scale, const void* b_scale) {
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, p.turns_a);
  set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a_scale);
  if (p.has_scale_of_b) set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b_scale);
  return description;
}

Layouts layouts_of(const Fp8Product& p) {
  Layouts made;
  const bool turns = p.turns_a == CUBLAS_OP_T;
  cublasLtMatrixLayoutCreate(&made.a, p.a, turns ? p.k : 32, turns ? 32 : p.k,
                             turns ? static_cast<std::int64_t>(p.k) : 32);
  cublasLtMatrixLayoutCreate(&made.b, p.b, p.k, 16, p.ldb);
  cublasLtMatrixLayoutCreate(&made.d, CUDA_R_16BF, 32, 16, 32);
  return made;
}

}  // namespace

void* device(std::size_t bytes) {
  void* memory = nullptr;
  cudaMalloc(&memory, bytes);
  return memory;
}

void* pinned(std::size_t bytes) {
  void* memory = nullptr;
  cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  return memory;
}

cudaStream_t make_stream(int priority) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority);
  return stream;
}

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  return event;
}

void wait_for(cudaStream_t stream, void* flag, std::uint64_t value, unsigned flags) {
  exec::cuda::find_driver_api().wait_value(stream, exec::cuda::driver_address(flag), value, flags);
}

void write_to(cudaStream_t stream, void* flag, std::uint64_t value) {
  exec::cuda::find_driver_api().write_value(stream, exec::cuda::driver_address(flag), value,
                                            CU_STREAM_WRITE_VALUE_DEFAULT);
}

void launch_nothing(cudaStream_t stream, std::int64_t blocks, int threads) {
  queue_kernel(stream, "nothing", blocks, threads, [] {});
}

void multiply(const Product& p) {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  const cublasLtMatmulDesc_t description = describe(p);
  const cublasLtMatmulPreference_t preference = prefer();
  Layouts layouts;
  cublasLtMatrixLayoutCreate(&layouts.a, CUDA_R_32F, 8, 32, p.lda);
  cublasLtMatrixLayoutCreate(&layouts.b, CUDA_R_32F, p.k_of_b, 16,
                             static_cast<std::int64_t>(p.k_of_b));
  cublasLtMatrixLayoutCreate(&layouts.d, CUDA_R_32F, 8, 16, 8);
  auto* a = static_cast<std::byte*>(device(8 * 32 * 4 + 256)) + p.offset_of_a;
  auto* own = static_cast<std::byte*>(device(2048)) + p.offset_of_workspace;
  void *b = device(32 * 16 * 4), *d = p.d_is_a ? a : device(8 * 16 * 4);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t offered =
      cublasLtMatmulAlgoGetHeuristic(handle, description, layouts.a, layouts.b, layouts.d,
                                     layouts.d, preference, 1, &found, &count);
  if (p.changes_after_choice)
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  const float alpha = 1, beta = 0;
  const cudaStream_t stream = make_stream();
  if (offered == CUBLAS_STATUS_SUCCESS)
    cublasLtMatmul(handle, description, &alpha, a, layouts.a, b, layouts.b, &beta, d, layouts.d, d,
                   layouts.d, &found.algo, own, p.workspace, stream);
  if (p.races) cudaMemcpyAsync(d, b, 64, cudaMemcpyDefault, make_stream());
  cudaDeviceSynchronize();
  for (const cublasLtMatrixLayout_t layout : {layouts.a, layouts.b, layouts.d})
    cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatmulDescDestroy(description);
  cublasLtDestroy(handle);
}

bool multiply(const Fp8Product& p) {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  auto *scales = static_cast<std::byte*>(device(64)), *a_scale = scales + p.offset_of_scale;
  const cublasLtMatmulDesc_t description = describe(p, a_scale, scales + 16);
  const cublasLtMatmulPreference_t preference = prefer();
  const std::uint32_t sixteen = 16;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                       &sixteen, sizeof sixteen);
  const Layouts layouts = layouts_of(p);
  void *a = device(64 * 32), *d = device(32 * 16 * 2), *own = device(1024);
  auto* b = static_cast<std::byte*>(device(128 * 16)) + p.offset_of_b;
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t offered =
      cublasLtMatmulAlgoGetHeuristic(handle, description, layouts.a, layouts.b, layouts.d,
                                     layouts.d, preference, 1, &found, &count);
  const float alpha = 1, beta = 0;
  if (offered == CUBLAS_STATUS_SUCCESS)
    cublasLtMatmul(handle, description, &alpha, a, layouts.a, b, layouts.b, &beta, d, layouts.d, d,
                   layouts.d, &found.algo, own, 1024, make_stream());
  if (p.races) cudaMemcpyAsync(a_scale, d, 4, cudaMemcpyDefault, make_stream());
  cudaDeviceSynchronize();
  for (const cublasLtMatrixLayout_t layout : {layouts.a, layouts.b, layouts.d})
    cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatmulDescDestroy(description);
  cublasLtDestroy(handle);
  return offered == CUBLAS_STATUS_SUCCESS;
}

Pair::Pair(int first_device, int second_device) : devices_{first_device, second_device} {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  for (int rank : {0, 1}) {
    cudaSetDevice(devices_[rank]);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&comms_[rank], 2, id, rank, &config);
    streams_[rank] = make_stream();
    data_[rank] = device(kFloats * sizeof(float));
  }
}

void Pair::on(int rank, const std::function<void(ncclComm_t, void*)>& calls) const {
  cudaSetDevice(devices_[rank]);
  calls(comms_[rank], data_[rank]);
}

void Pair::finish() const {
  for (int rank : {0, 1}) {
    cudaSetDevice(devices_[rank]);
    cudaStreamSynchronize(streams_[rank]);
  }
}

}  // namespace zplan::stand_in
