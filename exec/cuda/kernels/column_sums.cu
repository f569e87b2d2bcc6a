#include "exec/cuda/kernels/column_sums.h"

#include "exec/cuda/kernels/column_launch.cuh"

namespace zplan::exec::cuda {

Bytes column_sums_scratch_bytes(std::int64_t columns) { return piece_bytes(1, columns); }

template <typename T, typename G>
void column_sums(cudaStream_t stream, G* out, const T* in, std::int64_t rows, std::int64_t columns,
                 bool accumulate, DeviceScratch scratch) {
  const bool wide = is_aligned({in}) && columns % kWidthOf<T> == 0;
  with_width<kWidthOf<T>>(wide, [&](auto width) {
    constexpr int w = decltype(width)::value;
    const Pieces pieces = pieces_of(rows, columns, w, 1, scratch.size);
    launch(stream, "column_sums", grid_of_tiles(columns, w, pieces.count),
           column_pieces_kernel<T, w>, scratch.data, in, rows, columns, pieces);
    add_pieces<G>(stream, out, nullptr, scratch.data, pieces.count, columns, accumulate);
  });
}

#define ZPLAN_INSTANTIATE(T, G)                                                                 \
  template void column_sums<T, G>(cudaStream_t, G*, const T*, std::int64_t, std::int64_t, bool, \
                                  DeviceScratch);
ZPLAN_FOR_CUDA_GRADIENTS(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cuda
