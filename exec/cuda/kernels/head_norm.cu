#include "exec/cuda/kernels/head_norm.cuh"

#include "exec/cuda/kernels/column_launch.cuh"

namespace zplan::exec::cuda {
namespace {

template <typename T>
bool can_load_packs(const HeadNormShape& s, std::initializer_list<const void*> addresses) {
  return s.head_dim % kWidthOf<T> == 0 && is_aligned(addresses);
}

Grid grid_of_heads(const HeadNormShape& s) { return grid_of(s.rows() * kWarp, 1); }

}  // namespace

Bytes head_norm_scratch_bytes(const HeadNormShape& shape) { return piece_bytes(1, shape.head_dim); }

template <typename T>
void head_norm_forward(cudaStream_t stream, const HeadNormShape& s, const HeadNormForward<T>& x) {
  with_width<kWidthOf<T>>(can_load_packs<T>(s, {x.x, x.kept, x.gain}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, "head_norm_forward", grid_of_heads(s), head_norm_forward_kernel<T, w>, x, s);
  });
}

// The sums read the gradients that dx then overwrites.
template <typename T, typename G>
void head_norm_backward(cudaStream_t stream, const HeadNormShape& s,
                        const HeadNormBackward<T, G>& x, DeviceScratch scratch) {
  with_width<kWidthOf<T>>(can_load_packs<T>(s, {x.dx, x.x, x.gain}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    const Pieces pieces = pieces_of(s.rows(), s.head_dim, w, 1, scratch.size);
    launch(stream, "head_norm_backward: gain", grid_of_tiles(s.head_dim, w, pieces.count),
           head_norm_gain_pieces_kernel<T, G, w>, scratch.data, x, s, pieces);
    add_pieces<G>(stream, x.dgain, nullptr, scratch.data, pieces.count, s.head_dim,
                  x.accumulate_dgain);
    launch(stream, "head_norm_backward", grid_of_heads(s), head_norm_input_gradient_kernel<T, G, w>,
           x, s);
  });
}

#define ZPLAN_INSTANTIATE(T) \
  template void head_norm_forward<T>(cudaStream_t, const HeadNormShape&, const HeadNormForward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                              \
  template void head_norm_backward<T, G>(cudaStream_t, const HeadNormShape&, \
                                         const HeadNormBackward<T, G>&, DeviceScratch);
ZPLAN_FOR_CUDA_GRADIENTS(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
