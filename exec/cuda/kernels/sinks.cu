#include "exec/cuda/kernels/sinks.cuh"

#include "exec/cuda/kernels/column_launch.cuh"

namespace zplan::exec::cuda {

template <typename T>
void sinks_forward(cudaStream_t stream, const SinksShape& s, const SinksForward<T>& x) {
  const bool wide = is_aligned({x.out}) && s.value_dim % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    const std::int64_t rows = s.batch * s.sequence * s.heads;
    const LaneGrid lanes = grid_of_lanes(ceil_div(rows, kSinkRowsAhead), s.value_dim, w);
    launch(stream, "sinks_forward", lanes.grid, sinks_forward_kernel<T, w>, x, s, lanes.lanes);
  });
}

Bytes sinks_scratch_bytes(const SinksShape& s) { return piece_bytes(1, s.heads); }

template <typename T, typename G>
void sinks_backward(cudaStream_t stream, const SinksShape& s, const SinksBackward<T, G>& x,
                    DeviceScratch scratch) {
  const bool wide = is_aligned({x.dout, x.out}) && s.value_dim % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    const int lanes = lanes_of(s.value_dim, w);
    const std::int64_t tokens = s.batch * s.sequence;
    const std::int64_t wanted = std::min(
        {kMostSummingThreads / (lanes * s.heads), tokens, room_for_pieces(scratch.size, s.heads)});
    const std::int64_t piece = ceil_div(tokens, std::max<std::int64_t>(wanted, 1));
    const Pieces pieces{piece, ceil_div(tokens, piece)};
    launch(stream, "sinks_backward",
           Grid{ceil_div(pieces.count * s.heads * lanes, kThreads), kThreads},
           sinks_backward_kernel<T, G, w>, scratch.data, x, s, lanes, pieces);
    add_many_pieces<G>(stream, "sinks_backward", x.dsinks, nullptr, scratch.data, pieces.count,
                       s.heads, x.accumulate);
  });
}

#define ZPLAN_INSTANTIATE(T) \
  template void sinks_forward<T>(cudaStream_t, const SinksShape&, const SinksForward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                                   \
  template void sinks_backward<T, G>(cudaStream_t, const SinksShape&, const SinksBackward<T, G>&, \
                                     DeviceScratch);
ZPLAN_FOR_CUDA_GRADIENTS(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
