// Libraries load a kernel when it is first launched, which may wait for all streams of the device;
// in a step one of them may wait for the very launch. So every plan of a library runs once ahead of
// the first step, on memory of the moment: what is read and written there has no meaning.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/check.h"
#include "exec/cuda/handles.h"
#include "planner/core/units.h"

namespace zplan::exec::cuda {

// Calls launch(stream, operands, scratch) with so much memory for operands and for the scratch.
// Throws Error when the device has none left: a kernel that did not run would wait in a step.
template <typename Launch>
void warm_up(Bytes largest, Bytes scratch, const Launch& launch) {
  constexpr Bytes kAlignment{256};
  const Bytes operands = round_up(largest, kAlignment);
  void* allocated = nullptr;
  check(cudaMalloc(&allocated, static_cast<std::size_t>((operands + scratch).value)),
        "memory to try kernels in, cudaMalloc");
  const DeviceMemory memory(allocated);
  auto* begin = static_cast<std::byte*>(allocated);
  try {
    launch(cudaStream_t{nullptr}, begin, begin + operands.value);
  } catch (...) {
    cudaStreamSynchronize(nullptr);  // nothing uses the memory when it goes
    throw;
  }
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

}  // namespace zplan::exec::cuda
