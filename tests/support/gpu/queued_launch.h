// Launches that queue their kernels on streams of the stand-in GPU.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "exec/cuda/check.h"
#include "tests/support/cuda_on_host.h"
// After what takes the place of CUDA's own.
#include "exec/cuda/kernels/share.cuh"
#include "tests/support/gpu/machine.h"

// The toolkit's own form for kernels is nvcc's alone.
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)()) {
  *attributes = {};
  return cudaSuccess;
}

namespace zplan::exec::cuda {

// What arguments say of the memory that a kernel touches: of a pointer the first element, which is
// written unless it is constant; null is nothing.
template <typename T>
void add_access(std::vector<stand_in::Access>& to, const T& argument) {
  if constexpr (std::is_pointer_v<T>) {
    using Element = std::remove_pointer_t<T>;
    if (argument == nullptr) return;
    to.push_back(
        {reinterpret_cast<const std::byte*>(argument), sizeof(Element), !std::is_const_v<Element>});
  }
}

template <typename... A>
std::vector<stand_in::Access> accesses_of(const A&... arguments) {
  std::vector<stand_in::Access> all;
  (add_access(all, arguments), ...);
  return all;
}

// Of a sum over ranks, all of it.
template <typename T>
std::vector<stand_in::Access> accesses_of(const ShareMembers<T>& x, const std::int64_t& n) {
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
  std::vector<stand_in::Access> all;
  for (int i = 0; i < x.input_count; ++i) all.push_back(stand_in::read_of(x.inputs[i], bytes));
  for (int i = 0; i < x.output_count; ++i) all.push_back(stand_in::write_of(x.outputs[i], bytes));
  return all;
}

template <typename Grid, typename... P, typename... A>
void launch(cudaStream_t stream, const char* name, Grid grid, void (*kernel)(P...),
            A... arguments) {
  const auto run = [=] {
    cuda_on_host::run(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.threads),
                      [&] { kernel(static_cast<P>(arguments)...); });
  };
  check(stand_in::queue_kernel(stream, name, grid.blocks, grid.threads, run,
                               accesses_of(static_cast<P>(arguments)...)),
        name);
}

}  // namespace zplan::exec::cuda
