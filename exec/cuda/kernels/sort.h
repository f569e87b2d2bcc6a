// Pairs in the order of their keys, by CUB's radix sort: equal keys keep their order, so that what
// is added in this order is added alike in every run. Allocates nothing; may be captured.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "exec/cuda/kernels/column_sums.h"

namespace zplan::exec::cuda {

// n < 2^31 pairs, device memory; the sorted ones lie elsewhere.
struct Pairs {
  const std::uint32_t* keys;
  const std::uint32_t* values;
  std::uint32_t* sorted_keys;
  std::uint32_t* sorted_values;
  std::int64_t n;
  std::uint32_t largest;  // no key is larger
};

Bytes sort_scratch_bytes(const Pairs& pairs);
void sort_pairs(cudaStream_t stream, const Pairs& pairs, DeviceScratch scratch);

}  // namespace zplan::exec::cuda
