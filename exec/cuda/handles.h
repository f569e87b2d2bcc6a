// Owners of what the CUDA runtime hands out.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

#include "exec/cuda/check.h"

namespace zplan::exec::cuda {

struct StreamRelease {
  void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
};
struct EventRelease {
  void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
};
struct GraphRelease {
  void operator()(cudaGraph_t graph) const noexcept { cudaGraphDestroy(graph); }
};
struct GraphExecRelease {
  void operator()(cudaGraphExec_t graph) const noexcept { cudaGraphExecDestroy(graph); }
};
struct DeviceRelease {
  void operator()(void* memory) const noexcept { cudaFree(memory); }
};
struct PinnedRelease {
  void operator()(void* memory) const noexcept { cudaFreeHost(memory); }
};
using StreamHandle = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamRelease>;
using EventHandle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventRelease>;
using GraphHandle = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphRelease>;
using GraphExecHandle = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphExecRelease>;
using DeviceMemory = std::unique_ptr<void, DeviceRelease>;
using PinnedMemory = std::unique_ptr<void, PinnedRelease>;

inline EventHandle make_cuda_event(bool timing) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  return EventHandle(event);
}

// Whether the event's last recording was reached.
inline bool is_reached(cudaEvent_t event) {
  const cudaError_t state = cudaEventQuery(event);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // no failure, though the runtime remembers it as one
    return false;
  }
  check(state, "cudaEventQuery");
  return true;
}

}  // namespace zplan::exec::cuda
