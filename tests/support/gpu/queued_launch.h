// Launches that queue their kernels on streams of the stand-in GPU.
#pragma once

#include <cstdint>

#include "exec/cuda/check.h"
#include "tests/support/cuda_on_host.h"
#include "tests/support/gpu/machine.h"

// The toolkit's own form for kernels is nvcc's alone.
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)()) {
  *attributes = {};
  return cudaSuccess;
}

namespace zplan::exec::cuda {

template <typename Grid, typename... P, typename... A>
void launch(cudaStream_t stream, const char* name, Grid grid, void (*kernel)(P...),
            A... arguments) {
  const auto run = [=] {
    cuda_on_host::run(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.threads),
                      [&] { kernel(static_cast<P>(arguments)...); });
  };
  check(stand_in::queue_kernel(stream, name, grid.blocks, grid.threads, run), name);
}

}  // namespace zplan::exec::cuda
