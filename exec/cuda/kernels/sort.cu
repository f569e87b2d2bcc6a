#include "exec/cuda/kernels/sort.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "exec/cuda/check.h"

namespace zplan::exec::cuda {
namespace {

// Of the memory, or of its size where there is none.
std::size_t sort(cudaStream_t stream, const Pairs& x, void* memory, std::size_t bytes) {
  check(cub::DeviceRadixSort::SortPairs(memory, bytes, x.keys, x.sorted_keys, x.values,
                                        x.sorted_values, static_cast<int>(x.n), 0,
                                        std::bit_width(x.largest), stream),
        "sort_pairs");
  return bytes;
}

}  // namespace

Bytes sort_scratch_bytes(const Pairs& pairs) {
  return {static_cast<std::int64_t>(sort(nullptr, pairs, nullptr, 0))};
}

void sort_pairs(cudaStream_t stream, const Pairs& pairs, DeviceScratch scratch) {
  sort(stream, pairs, scratch.data, static_cast<std::size_t>(scratch.size.value));
}

}  // namespace zplan::exec::cuda
