#include "exec/cuda/kernels/cross_entropy.cuh"

#include "exec/cuda/kernels/cross_entropy.h"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/partials.h"
#include "exec/cuda/lane_context.h"

namespace zplan::exec::cuda {
namespace {

template <typename T>
bool is_wide(const CrossEntropyShape& s, const T* logits) {
  return is_aligned({logits}) && s.columns % kWidthOf<T> == 0;
}

// Of the kernel that leaves a partial loss per block.
Grid loss_grid(const CrossEntropyShape& s, int width) {
  Grid grid = grid_of_rows(s.batch * s.sequence, s.columns, width, kMostRowThreads);
  grid.blocks = std::min<std::int64_t>(grid.blocks, kPartials);
  return grid;
}

template <bool kMerges, typename T>
void gradient(cudaStream_t stream, const char* name, const CrossEntropyShape& s, T* logits,
              const std::int32_t* tokens, const float* statistics, std::int64_t pieces,
              const LossScaling& scaling) {
  with_width<kWidthOf<T>>(is_wide(s, logits), [&](auto width) {
    constexpr int w = decltype(width)::value;
    const Grid grid = loss_grid(s, w);
    launch(stream, name, grid, cross_entropy_gradient_kernel<kMerges, T, w>, logits, tokens,
           statistics, pieces, scaling, s);
    add_partials(stream, scaling.loss, scaling.partials, grid.blocks, scaling.scale);
  });
}

}  // namespace

template <typename T>
void cross_entropy_statistics(cudaStream_t stream, const CrossEntropyShape& s, float* statistics,
                              const T* logits, const std::int32_t* tokens) {
  with_width<kWidthOf<T>>(is_wide(s, logits), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "cross_entropy_statistics",
           grid_of_rows(s.batch * s.sequence, s.columns, w, kMostRowThreads),
           cross_entropy_statistics_kernel<T, w>, statistics, logits, tokens, s);
  });
}

template <typename T>
void cross_entropy_gradient(cudaStream_t stream, const CrossEntropyShape& shape, T* logits,
                            const std::int32_t* tokens, const float* statistics,
                            std::int64_t pieces, const LossScaling& scaling) {
  gradient<true>(stream, "cross_entropy_parallel", shape, logits, tokens, statistics, pieces,
                 scaling);
}

template <typename T>
void cross_entropy(cudaStream_t stream, const CrossEntropyShape& shape, T* logits,
                   const std::int32_t* tokens, const LossScaling& scaling) {
  gradient<false>(stream, "cross_entropy", shape, logits, tokens,
                  static_cast<const float*>(nullptr), 0, scaling);
}

#define ZPLAN_INSTANTIATE(T)                                                                      \
  template void cross_entropy_statistics<T>(cudaStream_t, const CrossEntropyShape&, float*,       \
                                            const T*, const std::int32_t*);                       \
  template void cross_entropy_gradient<T>(cudaStream_t, const CrossEntropyShape&, T*,             \
                                          const std::int32_t*, const float*, std::int64_t,        \
                                          const LossScaling&);                                    \
  template void cross_entropy<T>(cudaStream_t, const CrossEntropyShape&, T*, const std::int32_t*, \
                                 const LossScaling&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
