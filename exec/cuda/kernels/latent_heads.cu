#include "exec/cuda/kernels/latent_heads.cuh"

#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {
namespace {

// body(Width, grid): a block has the tokens at a position.
template <typename T, typename Body>
void with_grid(const LatentHeadsShape& s, std::initializer_list<const void*> addresses,
               const Body& body) {
  const std::int64_t w = kWidthOf<T>;
  const bool wide = s.nope % w == 0 && s.rope / 2 % w == 0 && s.value % w == 0;
  with_width<kWidthOf<T>>(wide && is_aligned(addresses), [&](auto width) {
    body(width, grid_of_rows(s.sequence, s.columns(), decltype(width)::value));
  });
}

}  // namespace

template <typename T>
void latent_heads_forward(cudaStream_t stream, const LatentHeadsShape& s,
                          const LatentHeadsForward<T>& x) {
  with_grid<T>(s, {x.qkv, x.q, x.kv, x.rope}, [&](auto width, Grid grid) {
    constexpr int w = decltype(width)::value;
    launch(stream, "latent_heads_forward", grid, latent_heads_forward_kernel<T, w>, x, s);
  });
}

template <typename T>
void latent_heads_backward(cudaStream_t stream, const LatentHeadsShape& s,
                           const LatentHeadsBackward<T>& x) {
  with_grid<T>(s, {x.dq, x.dkv, x.dqkv}, [&](auto width, Grid grid) {
    constexpr int w = decltype(width)::value;
    launch(stream, "latent_heads_backward", grid, latent_heads_backward_kernel<T, w>, x, s);
  });
}

#define ZPLAN_INSTANTIATE(T)                                                    \
  template void latent_heads_forward<T>(cudaStream_t, const LatentHeadsShape&,  \
                                        const LatentHeadsForward<T>&);          \
  template void latent_heads_backward<T>(cudaStream_t, const LatentHeadsShape&, \
                                         const LatentHeadsBackward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
