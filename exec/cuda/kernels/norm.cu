#include "exec/cuda/kernels/norm.cuh"

#include "exec/cuda/kernels/column_launch.cuh"
#include "exec/cuda/kernels/norm.h"

namespace zplan::exec::cuda {
namespace {

template <bool kCentred, typename T>
void forward(cudaStream_t stream, const char* name, const NormShape& s, const NormForward<T>& x) {
  const bool wide = is_aligned({x.y, x.x, x.gain, x.bias}) && s.hidden % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, name, grid_of_rows(s.tokens, s.hidden, w * kNormPacks, kMostRowThreads),
           norm_forward_kernel<kCentred, T, w>, x, s);
  });
}

template <bool kCentred, typename T>
void residual_forward(cudaStream_t stream, const char* name, const NormShape& s,
                      const ResidualSum<T>& sum, const NormForward<T>& x) {
  const bool wide = is_aligned({sum.sum, sum.x, sum.y, sum.bias, x.y, x.gain, x.bias}) &&
                    s.hidden % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(stream, name, grid_of_rows(s.tokens, s.hidden, w * kNormPacks, kMostRowThreads),
           residual_norm_forward_kernel<kCentred, T, w>, sum, x, s);
  });
}

constexpr int kMostPacks = 2;  // of the sums, what a thread keeps in registers

// Whether rows were short enough for one pass.
template <bool kCentred, int kWidth, typename T, typename G>
bool backward_in_one_pass(cudaStream_t stream, const char* name, const NormShape& s,
                          const NormBackward<T, G>& x, DeviceScratch scratch) {
  const std::int64_t packs = ceil_div(s.hidden, kWidth);
  const int threads = threads_for(packs, kMostRowThreads);
  if (packs > kMostPacks * threads) return false;
  const std::int64_t piece = (kCentred ? 2 : 1) * s.hidden;
  const std::int64_t blocks =
      std::min({s.tokens, kMostSummingThreads / threads, room_for_pieces(scratch.size, piece)});
  if (blocks < 1) return false;
  const auto kernel = packs <= threads ? norm_backward_kernel<kCentred, T, G, kWidth, 1>
                                       : norm_backward_kernel<kCentred, T, G, kWidth, kMostPacks>;
  launch(stream, name, Grid{blocks, threads}, kernel, scratch.data, x, s);
  add_many_pieces<G>(stream, name, x.dgain, kCentred ? x.dbias : nullptr, scratch.data, blocks,
                     s.hidden, x.accumulate_parameters);
  return true;
}

template <bool kCentred, typename T, typename G>
void backward(cudaStream_t stream, const char* name, const NormShape& s,
              const NormBackward<T, G>& x, DeviceScratch scratch) {
  const bool wide = is_aligned({x.dx, x.dy, x.x, x.gain}) && s.hidden % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    if (backward_in_one_pass<kCentred, w>(stream, name, s, x, scratch)) return;
    launch(stream, name, grid_of_rows(s.tokens, s.hidden, w, kMostRowThreads),
           norm_input_gradient_kernel<kCentred, T, G, w>, x, s);
    const Pieces pieces = pieces_of(s.tokens, s.hidden, w, kCentred ? 2 : 1, scratch.size);
    launch(stream, name, grid_of_tiles(s.hidden, w, pieces.count),
           norm_parameter_pieces_kernel<kCentred, T, G, w>, scratch.data, x, s, pieces);
    add_pieces<G>(stream, x.dgain, kCentred ? x.dbias : nullptr, scratch.data, pieces.count,
                  s.hidden, x.accumulate_parameters);
  });
}

}  // namespace

Bytes norm_scratch_bytes(const NormShape& shape) { return piece_bytes(2, shape.hidden); }

template <typename T>
void layernorm_forward(cudaStream_t stream, const NormShape& shape, const NormForward<T>& x) {
  forward<true>(stream, "layernorm_forward", shape, x);
}

template <typename T>
void rmsnorm_forward(cudaStream_t stream, const NormShape& shape, const NormForward<T>& x) {
  forward<false>(stream, "rmsnorm_forward", shape, x);
}

template <typename T>
void residual_layernorm_forward(cudaStream_t stream, const NormShape& shape,
                                const ResidualSum<T>& sum, const NormForward<T>& norm) {
  residual_forward<true>(stream, "residual_layernorm_forward", shape, sum, norm);
}

template <typename T>
void residual_rmsnorm_forward(cudaStream_t stream, const NormShape& shape,
                              const ResidualSum<T>& sum, const NormForward<T>& norm) {
  residual_forward<false>(stream, "residual_rmsnorm_forward", shape, sum, norm);
}

template <typename T, typename G>
void layernorm_backward(cudaStream_t stream, const NormShape& shape, const NormBackward<T, G>& x,
                        DeviceScratch scratch) {
  backward<true>(stream, "layernorm_backward", shape, x, scratch);
}

template <typename T, typename G>
void rmsnorm_backward(cudaStream_t stream, const NormShape& shape, const NormBackward<T, G>& x,
                      DeviceScratch scratch) {
  backward<false>(stream, "rmsnorm_backward", shape, x, scratch);
}

#define ZPLAN_INSTANTIATE(T)                                                                       \
  template void layernorm_forward<T>(cudaStream_t, const NormShape&, const NormForward<T>&);       \
  template void rmsnorm_forward<T>(cudaStream_t, const NormShape&, const NormForward<T>&);         \
  template void residual_layernorm_forward<T>(cudaStream_t, const NormShape&,                      \
                                              const ResidualSum<T>&, const NormForward<T>&);       \
  template void residual_rmsnorm_forward<T>(cudaStream_t, const NormShape&, const ResidualSum<T>&, \
                                            const NormForward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                                   \
  template void layernorm_backward<T, G>(cudaStream_t, const NormShape&,                          \
                                         const NormBackward<T, G>&, DeviceScratch);               \
  template void rmsnorm_backward<T, G>(cudaStream_t, const NormShape&, const NormBackward<T, G>&, \
                                       DeviceScratch);
ZPLAN_FOR_CUDA_GRADIENTS(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
