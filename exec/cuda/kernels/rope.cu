#include "exec/cuda/kernels/rope.cuh"

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/rope.h"

namespace zplan::exec::cuda {

template <typename T>
void rope(cudaStream_t stream, const RopeShape& s, T* x, double theta, int direction) {
  const bool wide =
      is_aligned({x}) && s.pairs() % kWidthOf<T> == 0 && s.head_dim % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "rope", grid_of_rows(s.sequence, s.batch * s.turned * s.pairs(), w),
           rope_kernel<T, w>, x, s, theta, direction);
  });
}

#define ZPLAN_INSTANTIATE(T) template void rope<T>(cudaStream_t, const RopeShape&, T*, double, int);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
