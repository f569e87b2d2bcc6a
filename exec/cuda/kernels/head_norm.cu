#include "exec/cuda/kernels/head_norm.cuh"

#include "exec/cuda/kernels/column_launch.cuh"

namespace zplan::exec::cuda {
namespace {

template <typename T>
bool can_load_packs(const HeadNormShape& s, std::initializer_list<const void*> addresses) {
  return s.head_dim % kWidthOf<T> == 0 && is_aligned(addresses);
}

}  // namespace

Bytes head_norm_scratch_bytes(const HeadNormShape& shape) { return piece_bytes(1, shape.head_dim); }

template <typename T>
void head_norm_forward(cudaStream_t stream, const HeadNormShape& s, const HeadNormForward<T>& x) {
  with_width<kWidthOf<T>>(can_load_packs<T>(s, {x.x, x.kept, x.gain}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    const LaneGrid lanes = grid_of_lanes(s.rows(), s.head_dim, w);
    launch(stream, "head_norm_forward", lanes.grid, head_norm_forward_kernel<T, w>, x, s,
           lanes.lanes);
  });
}

namespace {

template <int kWidth, typename T, typename G>
void backward_in_one_pass(cudaStream_t stream, const HeadNormShape& s,
                          const HeadNormBackward<T, G>& x, DeviceScratch scratch) {
  const std::int64_t blocks =
      std::min(kMostSummingThreads / kThreads, room_for_pieces(scratch.size, s.head_dim));
  const LaneGrid lanes = grid_of_lanes(s.rows(), s.head_dim, kWidth, blocks);
  const auto kernel = s.head_dim <= kWarp * kWidth
                          ? head_norm_backward_kernel<T, G, kWidth, 1>
                          : head_norm_backward_kernel<T, G, kWidth, kMostHeadPacks<kWidth>>;
  launch(stream, "head_norm_backward", lanes.grid, kernel, scratch.data, x, s, lanes.lanes);
  add_many_pieces<G>(stream, "head_norm_backward", x.dgain, nullptr, scratch.data,
                     lanes.grid.blocks, s.head_dim, x.accumulate_dgain);
}

// The sums read the gradients that dx then overwrites.
template <int kWidth, typename T, typename G>
void backward_in_two(cudaStream_t stream, const HeadNormShape& s, const HeadNormBackward<T, G>& x,
                     DeviceScratch scratch) {
  const Pieces pieces = pieces_of(s.rows(), s.head_dim, kWidth, 1, scratch.size);
  launch(stream, "head_norm_backward", grid_of_tiles(s.head_dim, kWidth, pieces.count),
         head_norm_gain_pieces_kernel<T, G, kWidth>, scratch.data, x, s, pieces);
  add_pieces<G>(stream, x.dgain, nullptr, scratch.data, pieces.count, s.head_dim,
                x.accumulate_dgain);
  launch(stream, "head_norm_backward", grid_of(s.rows() * kWarp, 1),
         head_norm_input_gradient_kernel<T, G, kWidth>, x, s);
}

}  // namespace

template <typename T, typename G>
void head_norm_backward(cudaStream_t stream, const HeadNormShape& s,
                        const HeadNormBackward<T, G>& x, DeviceScratch scratch) {
  with_width<kWidthOf<T>>(can_load_packs<T>(s, {x.dx, x.x, x.gain}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    if (s.head_dim <= kMostNormedDim) {
      backward_in_one_pass<w>(stream, s, x, scratch);
    } else {
      backward_in_two<w>(stream, s, x, scratch);
    }
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
