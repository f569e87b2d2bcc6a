// Device code of share.h.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/share.h"

namespace zplan::exec::cuda {

// At element 0 of the share.
template <typename T>
struct ShareMembers {
  const T* inputs[kMostMembers];
  T* outputs[kMostMembers];
  int input_count, output_count;
};

// outputs [n], all of them = sum of inputs [n], in order. (inputs + outputs) n elements moved. An
// output may be one of the inputs: a pack is summed before it is stored.
template <typename T, int kWidth>
__global__ void sum_members_kernel(const __grid_constant__ ShareMembers<T> x, std::int64_t n) {
  for_packs<kWidth>(n, [&](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    auto sum = load<w>(x.inputs[0] + i);
    for (int member = 1; member < x.input_count; ++member) {
      const auto v = load<w>(x.inputs[member] + i);
#pragma unroll
      for (int k = 0; k < w; ++k) sum.at[k] += v.at[k];
    }
    for (int member = 0; member < x.output_count; ++member) store<w>(x.outputs[member] + i, sum);
  });
}

}  // namespace zplan::exec::cuda
