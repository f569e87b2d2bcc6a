#include "exec/cuda/kernels/gradient_norm.h"

#include "exec/cuda/kernels/gradient_norm.cuh"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/partials.h"
#include "exec/cuda/lane_context.h"

namespace zplan::exec::cuda {

template <typename T>
void sum_squares(cudaStream_t stream, double* sum, const T* x, std::int64_t n, double* partials) {
  with_width<kWidthOf<T>>(is_aligned({x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    Grid grid = grid_of(n, w);
    grid.blocks = std::min<std::int64_t>(grid.blocks, kPartials);
    launch(stream, "sum_squares", grid, sum_squares_kernel<T, w>, partials, x, n);
    add_partials(stream, sum, partials, grid.blocks, 1.0);
  });
}

void clip_coefficient(cudaStream_t stream, double* clip, const double* squares,
                      const double* scalars, bool round_norm) {
  launch(stream, "clip_coefficient", Grid{1, 1}, clip_coefficient_kernel, clip, squares, scalars,
         round_norm);
}

#define ZPLAN_INSTANTIATE(T) \
  template void sum_squares<T>(cudaStream_t, double*, const T*, std::int64_t, double*);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
