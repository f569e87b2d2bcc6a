#include "exec/cuda/kernels/latent_heads.cuh"

#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {
namespace {

Grid grid_of_tokens(const LatentHeadsShape& s) {
  return grid_of_rows(s.batch * s.sequence, s.columns(), 1);
}

}  // namespace

template <typename T>
void latent_heads_forward(cudaStream_t stream, const LatentHeadsShape& s,
                          const LatentHeadsForward<T>& x) {
  launch(stream, "latent_heads_forward", grid_of_tokens(s), latent_heads_forward_kernel<T>, x, s);
}

template <typename T>
void latent_heads_backward(cudaStream_t stream, const LatentHeadsShape& s,
                           const LatentHeadsBackward<T>& x) {
  launch(stream, "latent_heads_backward", grid_of_tokens(s), latent_heads_backward_kernel<T>, x, s);
}

#define ZPLAN_INSTANTIATE(T)                                                    \
  template void latent_heads_forward<T>(cudaStream_t, const LatentHeadsShape&,  \
                                        const LatentHeadsForward<T>&);          \
  template void latent_heads_backward<T>(cudaStream_t, const LatentHeadsShape&, \
                                         const LatentHeadsBackward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
