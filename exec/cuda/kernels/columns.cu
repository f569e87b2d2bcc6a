#include "exec/cuda/kernels/columns.cuh"

#include <algorithm>
#include <iterator>

#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {
namespace {

template <bool kSplits, typename T>
void move_columns(cudaStream_t stream, const char* name, const ColumnPieces& s, T* y, const T* x) {
  const bool wide =
      is_aligned({y, x}) && std::all_of(std::begin(s.segments), std::end(s.segments),
                                        [](std::int64_t n) { return n % kWidthOf<T> == 0; });
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    const std::int64_t packs = s.pieces * s.width() / w;
    const int threads = threads_for(packs);
    const std::int64_t tiles = ceil_div(packs, threads) * ceil_div(s.rows, kMovedRows);
    launch(stream, name, Grid{std::clamp<std::int64_t>(tiles, 1, kMostBlocks), threads},
           move_columns_kernel<T, w, kSplits>, y, x, s, s.width());
  });
}

}  // namespace

template <typename T>
void split_columns(cudaStream_t stream, const ColumnPieces& s, T* y, const T* x) {
  move_columns<true>(stream, "split_columns", s, y, x);
}

template <typename T>
void join_columns(cudaStream_t stream, const ColumnPieces& s, T* y, const T* x) {
  move_columns<false>(stream, "join_columns", s, y, x);
}

#define ZPLAN_INSTANTIATE(T)                                                       \
  template void split_columns<T>(cudaStream_t, const ColumnPieces&, T*, const T*); \
  template void join_columns<T>(cudaStream_t, const ColumnPieces&, T*, const T*);
ZPLAN_FOR_CUDA_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
