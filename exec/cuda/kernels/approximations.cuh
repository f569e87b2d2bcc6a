// What the special function units give at once, to one or two units in the last place, in a
// fraction of the instructions of the exact forms.
#pragma once

#include <cmath>

namespace zplan::exec::cuda {

inline constexpr float kLog2OfE = 1.44269504088896340736f;

__device__ inline float approximate_exp2(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

// The product is rounded too: for x far from 0 that is x / 2 units in the last place.
__device__ inline float approximate_exp(float x) { return approximate_exp2(x * kLog2OfE); }

__device__ inline float approximate_inverse(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1.0f / x;
#endif
}

}  // namespace zplan::exec::cuda
