// What a kernel of one lane launches with. Made ahead of the first step; no launch allocates.
#pragma once

#include <cuda_runtime.h>

namespace zplan::exec::cuda {

class GemmPlans;       // gemm.h
class AttentionPlans;  // attention.h

// float64 values that a reduction over blocks may keep between two kernels.
inline constexpr int kPartials = 1024;

struct LaneContext {
  cudaStream_t stream = nullptr;
  double* partials = nullptr;  // [kPartials], device memory of the lane alone
  GemmPlans* gemm = nullptr;
  AttentionPlans* attention = nullptr;
};

}  // namespace zplan::exec::cuda
