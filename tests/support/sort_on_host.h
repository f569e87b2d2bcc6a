// What exec/cuda/kernels/sort.h offers, on the host: CUB runs on devices alone.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "exec/cuda/kernels/sort.h"

namespace zplan::exec::cuda {

inline Bytes sort_scratch_bytes(const Pairs&) { return {0}; }

inline void sort_pairs(cudaStream_t, const Pairs& x, DeviceScratch) {
  std::vector<std::size_t> order(static_cast<std::size_t>(x.n));
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x.keys[a] < x.keys[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    x.sorted_keys[i] = x.keys[order[i]];
    x.sorted_values[i] = x.values[order[i]];
  }
}

}  // namespace zplan::exec::cuda
