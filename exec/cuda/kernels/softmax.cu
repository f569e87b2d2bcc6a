#include "exec/cuda/kernels/softmax.cuh"

#include "exec/cuda/kernels/launch.cuh"
#include "exec/cuda/kernels/softmax.h"

namespace zplan::exec::cuda {

template <typename T>
void softmax_forward(cudaStream_t stream, const SquareRows& s, T* scores) {
  const bool wide = is_aligned({scores}) && s.sequence % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "softmax_forward",
           grid_of_rows(s.squares * s.sequence, s.sequence, w, kMostRowThreads),
           softmax_forward_kernel<T, w>, scores, s);
  });
}

template <typename T>
void softmax_backward(cudaStream_t stream, const SquareRows& s, T* dprobs, const T* probs) {
  const bool wide = is_aligned({dprobs, probs}) && s.sequence % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "softmax_backward",
           grid_of_rows(s.squares * s.sequence, s.sequence, w, kMostRowThreads),
           softmax_backward_kernel<T, w>, dprobs, probs, s);
  });
}

#define ZPLAN_INSTANTIATE(T)                                             \
  template void softmax_forward<T>(cudaStream_t, const SquareRows&, T*); \
  template void softmax_backward<T>(cudaStream_t, const SquareRows&, T*, const T*);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
