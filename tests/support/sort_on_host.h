// What exec/cuda/kernels/sort.h offers, on the host, where CUB does not run: a kernel of one
// thread. After launches for the host (launch_on_host.h or gpu/queued_launch.h).
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/sort.h"

namespace zplan::exec::cuda {

inline Bytes sort_scratch_bytes(const Pairs&) { return {0}; }

inline void sort_kernel(Pairs x) {
  if (threadIdx.x != 0) return;
  std::vector<std::size_t> order(static_cast<std::size_t>(x.n));
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x.keys[a] < x.keys[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    x.sorted_keys[i] = x.keys[order[i]];
    x.sorted_values[i] = x.values[order[i]];
  }
}

inline void sort_pairs(cudaStream_t stream, const Pairs& x, DeviceScratch) {
  launch(stream, "sort_pairs", Grid{1, kWarp}, sort_kernel, x);
}

}  // namespace zplan::exec::cuda
