#include "exec/cuda/first_work.h"

#include <cstdint>
#include <cstring>

#include "exec/cuda/check.h"
#include "exec/cuda/kernels/elementwise.h"

namespace zplan::exec::cuda {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr std::uint64_t kValue = 1;

}  // namespace

FirstWork::FirstWork(const DriverApi& driver) : driver_(driver), event_(make_cuda_event(false)) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, 2 * kBytes), "memory for the first work of streams, cudaMalloc");
  device_.reset(memory);
  check(cudaHostAlloc(&memory, kBytes, cudaHostAllocPortable | cudaHostAllocMapped),
        "cudaHostAlloc");
  host_.reset(memory);
  std::memset(memory, 0, kBytes);
}

void FirstWork::give(cudaStream_t stream) const {
  try {
    queue(stream);
  } catch (...) {
    cudaStreamSynchronize(stream);  // nothing uses the memory when it goes
    throw;
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void FirstWork::queue(cudaStream_t stream) const {
  auto* const device = static_cast<float*>(device_.get());
  const auto copy = [&](void* to, const void* from) {
    check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  };
  copy(device, host_.get());
  scale(stream, device, kBytes / sizeof(float), 1);
  copy(device + kBytes / sizeof(float), device);
  copy(host_.get(), device);
  const CUdeviceptr flag = driver_address(host_.get());
  check_driver(driver_.write_value(stream, flag, kValue, CU_STREAM_WRITE_VALUE_DEFAULT),
               "cuStreamWriteValue64");
  check_driver(driver_.wait_value(stream, flag, kValue, CU_STREAM_WAIT_VALUE_GEQ),
               "cuStreamWaitValue64");
  check(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream, event_.get(), 0), "cudaStreamWaitEvent");
  scale(stream, device, kBytes / sizeof(float), 1);
}

}  // namespace zplan::exec::cuda
