// Short ways to call CUDA, cuBLASLt and NCCL as a backend does, or wrongly.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace zplan::stand_in {

void* device(std::size_t bytes);
void* pinned(std::size_t bytes);
cudaStream_t make_stream(int priority = 0);
cudaEvent_t make_event();  // without timing
void wait_for(cudaStream_t stream, void* flag, std::uint64_t value,
              unsigned flags = CU_STREAM_WAIT_VALUE_GEQ);
void write_to(cudaStream_t stream, void* flag, std::uint64_t value);
void launch_nothing(cudaStream_t stream, std::int64_t blocks, int threads);

// D[8, 16] = A[8, 32] B[32, 16] in float32, as it should be but for what is said.
struct Product {
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int64_t lda = 8;
  std::uint64_t k_of_b = 32;
  std::int64_t aux_ld = 8;
  bool has_aux = true, has_vector = true;
  cudaDataType_t vector_type = CUDA_R_32F;
  bool changes_after_choice = false;
  std::size_t offset_of_a = 0, offset_of_workspace = 0;  // bytes
  std::size_t workspace = 1024;                          // that it is given; 1024 were asked for
  bool d_is_a = false;
  bool races = false;  // with a copy to D
};
void multiply(const Product& product);

// D[32, 16] = A[32, 64] B[64, 16], D in bf16, k innermost and a scale for each of A and B, as it
// should be but for what is said.
struct Fp8Product {
  cudaDataType_t a = CUDA_R_8F_E4M3, b = CUDA_R_8F_E5M2;
  cublasOperation_t turns_a = CUBLAS_OP_T;
  std::uint64_t k = 64;
  std::int64_t ldb = 64;
  bool has_scale_of_b = true;
  std::size_t offset_of_b = 0, offset_of_scale = 0;  // bytes
  bool races = false;                                // with a copy to the scale of A
};
// Whether the library has a kernel for it.
bool multiply(const Fp8Product& product);

// A communicator of two ranks on two devices, all calls made by this thread; and memory.
class Pair {
 public:
  static constexpr std::size_t kFloats = 64;
  explicit Pair(int first_device = 0, int second_device = 1);

  ncclComm_t comm(int rank) const { return comms_[rank]; }
  cudaStream_t stream(int rank) const { return streams_[rank]; }
  // On the rank's device.
  void on(int rank, const std::function<void(ncclComm_t, void* data)>& calls) const;
  void finish() const;

 private:
  int devices_[2];
  ncclComm_t comms_[2] = {};
  cudaStream_t streams_[2] = {};
  void* data_[2] = {};
};

}  // namespace zplan::stand_in
