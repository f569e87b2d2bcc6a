#include "exec/cuda/kernels/attention_backward.cuh"
#include "exec/cuda/kernels/attention_forward.cuh"
#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {
namespace {

// Shared memory stays below the 48 KiB that every device gives without being asked.
constexpr std::int64_t kMostSharedBytes = 48 << 10;

// Two tiles of rows and a square.
template <int kDim>
using ForwardTile = AttentionTile<kDim <= 128 ? 32 : 16, kDim>;
template <typename Tile>
constexpr bool kForwardFits =
    2 * sizeof(typename Tile::Rows) + sizeof(typename Tile::Square) <= kMostSharedBytes;

// Four tiles of rows and two squares.
template <int kDim>
using BackwardTile = AttentionTile<kDim <= 64    ? 32
                                   : kDim <= 128 ? 16
                                                 : 8,
                                   kDim>;
template <typename Tile>
constexpr bool kBackwardFits =
    4 * sizeof(typename Tile::Rows) + 2 * sizeof(typename Tile::Square) <= kMostSharedBytes;

static_assert(kForwardFits<ForwardTile<64>> && kForwardFits<ForwardTile<128>> &&
              kForwardFits<ForwardTile<256>>);
static_assert(kBackwardFits<BackwardTile<64>> && kBackwardFits<BackwardTile<128>> &&
              kBackwardFits<BackwardTile<256>>);

// A block per tile, head and sequence.
template <typename Tile>
Grid tile_grid(const AttentionShape& s, std::int64_t heads) {
  return {ceil_div(s.sequence, Tile::kRows) * heads * s.batch, Tile::kThreads};
}

template <typename T>
bool can_load_packs(const AttentionShape& s, std::initializer_list<const void*> addresses) {
  return s.head_dim % kWidthOf<T> == 0 && s.value_dim % kWidthOf<T> == 0 && is_aligned(addresses);
}

template <typename T, int kDim>
void forward(cudaStream_t stream, const AttentionShape& s, const AttentionForward<T>& x) {
  using Tile = ForwardTile<kDim>;
  launch(stream, "attention_forward", tile_grid<Tile>(s, s.heads),
         attention_forward_kernel<T, Tile>, s, x, can_load_packs<T>(s, {x.qkv}));
}

template <typename T, int kDim>
void backward(cudaStream_t stream, const AttentionShape& s, const AttentionBackward<T>& x) {
  using Tile = BackwardTile<kDim>;
  const bool wide = can_load_packs<T>(s, {x.qkv, x.dout});
  const std::int64_t rows = s.batch * s.sequence * s.heads;
  launch(stream, "attention_backward: delta", grid_of(rows * kWarp, 1), attention_delta_kernel<T>,
         s, x);
  launch(stream, "attention_backward: dq", tile_grid<Tile>(s, s.heads),
         attention_dq_kernel<T, Tile>, s, x, wide);
  launch(stream, "attention_backward: dk and dv", tile_grid<Tile>(s, s.kv_heads),
         attention_dkv_kernel<T, Tile>, s, x, wide);
}

}  // namespace

template <typename T>
void launch_attention_forward(cudaStream_t stream, const AttentionShape& shape,
                              const AttentionForward<T>& x) {
  if (shape.widest() <= 64) return forward<T, 64>(stream, shape, x);
  if (shape.widest() <= 128) return forward<T, 128>(stream, shape, x);
  forward<T, kMostHeadDim>(stream, shape, x);
}

template <typename T>
void launch_attention_backward(cudaStream_t stream, const AttentionShape& shape,
                               const AttentionBackward<T>& x) {
  if (shape.widest() <= 64) return backward<T, 64>(stream, shape, x);
  if (shape.widest() <= 128) return backward<T, 128>(stream, shape, x);
  backward<T, kMostHeadDim>(stream, shape, x);
}

#define ZPLAN_INSTANTIATE(T)                                                      \
  template void launch_attention_forward<T>(cudaStream_t, const AttentionShape&,  \
                                            const AttentionForward<T>&);          \
  template void launch_attention_backward<T>(cudaStream_t, const AttentionShape&, \
                                             const AttentionBackward<T>&);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
