#include "exec/cuda/kernels/embedding.cuh"

#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/kernels/embedding.h"
#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {

template <typename T>
void embedding_forward(cudaStream_t stream, const EmbeddingShape& s, const EmbeddingForward<T>& x) {
  const bool wide = is_aligned({x.x, x.wte, x.wpe}) && s.hidden % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "embedding_forward", grid_of_rows(s.batch * s.sequence, s.hidden, w),
           embedding_forward_kernel<T, w>, x, s);
  });
}

template <typename T, typename G>
void embedding_backward(cudaStream_t stream, const EmbeddingShape& s,
                        const EmbeddingBackward<T, G>& x) {
  if (!x.accumulate_wte)
    fill_zero(stream, x.dwte, s.rows * s.hidden * static_cast<std::int64_t>(sizeof(G)));
  const bool wide = is_aligned({x.dwte, x.dwpe, x.dx}) && s.hidden % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    const std::int64_t places = s.batch * s.token_stride, n = s.sequence * s.hidden;
    const std::int64_t work = std::max(places, ceil_div(s.hidden, w));  // of a block
    launch(stream, "embedding_backward", grid_of_rows(places, work, 1),
           embedding_tokens_kernel<T, G, w>, x, s);
    if (x.dwpe != nullptr)
      launch(stream, "embedding_backward", grid_of(n, w), embedding_positions_kernel<T, G, w>, x,
             s.batch, n);
  });
}

#define ZPLAN_INSTANTIATE(T)                                              \
  template void embedding_forward<T>(cudaStream_t, const EmbeddingShape&, \
                                     const EmbeddingForward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                               \
  template void embedding_backward<T, G>(cudaStream_t, const EmbeddingShape&, \
                                         const EmbeddingBackward<T, G>&);
ZPLAN_FOR_CUDA_GRADIENTS(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
