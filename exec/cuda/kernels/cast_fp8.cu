#include "exec/cuda/kernels/cast_fp8.cuh"

#include <algorithm>

#include "exec/cuda/kernels/launch.cuh"
#include "planner/program/kernels/fp8_products.h"

namespace zplan::exec::cuda {

template <typename T>
void cast_fp8(cudaStream_t stream, const CastFp8<T>& cast) {
  const std::int64_t n = cast.rows * cast.columns;
  const std::int64_t tiles = ceil_div(cast.rows, kCastTile) * ceil_div(cast.columns, kCastTile);
  const Grid casting{std::clamp<std::int64_t>(tiles, 1, kMostBlocks), kThreads};
  with_width<kWidthOf<T>>(is_aligned({cast.x}), [&](auto width) {
    constexpr int w = decltype(width)::value;
    Grid reading = grid_of(n, w);
    reading.blocks = std::min(reading.blocks, kFp8Parts);
    launch(stream, "greatest", reading, greatest_kernel<T, w>, cast.parts, cast.x, n);
    const int parts = static_cast<int>(reading.blocks);
    if (cast.transposes) {
      launch(stream, "cast_fp8", casting, cast_fp8_kernel<T, w, true>, cast, parts);
    } else {
      launch(stream, "cast_fp8", casting, cast_fp8_kernel<T, w, false>, cast, parts);
    }
  });
}

template <typename G>
void row_sums_fp8(cudaStream_t stream, G* out, const std::uint8_t* codes, const float* scale,
                  std::int64_t rows, std::int64_t columns, Fp8Format format, bool accumulate) {
  launch(stream, "row_sums_fp8", grid_of_rows(rows, columns, kCodes), row_sums_fp8_kernel<G>, out,
         codes, scale, rows, columns, format, accumulate);
}

template void cast_fp8<__nv_bfloat16>(cudaStream_t, const CastFp8<__nv_bfloat16>&);
template void row_sums_fp8<__nv_bfloat16>(cudaStream_t, __nv_bfloat16*, const std::uint8_t*,
                                          const float*, std::int64_t, std::int64_t, Fp8Format,
                                          bool);
template void row_sums_fp8<float>(cudaStream_t, float*, const std::uint8_t*, const float*,
                                  std::int64_t, std::int64_t, Fp8Format, bool);

}  // namespace zplan::exec::cuda
