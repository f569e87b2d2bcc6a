// Device code of cast_fp8.h. Elements of 16 bits times 7 / 8 are float32 without rounding, and one
// division by the greatest of them rounds once: what lies halfway between two codes stays there,
// and what does not is off by 2^-16 of itself at least, since x and the greatest have 11 bits at
// most, 7 three and a middle five. [derived]
#pragma once

#include <cuda_fp8.h>

#include "exec/cuda/kernels/cast_fp8.h"
#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

inline constexpr int kCodes = 16;  // of a thread at a time, 16 bytes
// [assumed] rows and columns of a tile that a block of kThreads threads casts at once.
inline constexpr int kCastTile = 64;
inline constexpr int kTileChunks = kCastTile / kCodes;
static_assert(kCastTile * kTileChunks == kThreads);

struct Greatest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

__device__ inline __nv_fp8_interpretation_t interpretation(Fp8Format format) {
  return format == Fp8Format::kE4m3 ? __NV_E4M3 : __NV_E5M2;
}

// The greatest values, 448 and 57344, are 7 / 8 of powers of two.
inline constexpr float kSevenEighths = 0.875f;
__device__ inline float power_of(Fp8Format format) {
  return format == Fp8Format::kE4m3 ? 512.0f : 65536.0f;
}

// parts [blocks], the greatest magnitudes of what each block reads
template <typename T, int kWidth>
__global__ void greatest_kernel(float* parts, const T* x, std::int64_t n) {
  float greatest = 0;
  for_packs<kWidth>(n, [&](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    const auto v = load<w>(x + i);
#pragma unroll
    for (int k = 0; k < w; ++k) greatest = fmaxf(greatest, fabsf(v.at[k]));
  });
  greatest = block_reduce(greatest, Greatest{});
  if (threadIdx.x == 0) parts[blockIdx.x] = greatest;
}

// Of all parts, the same for every block.
__device__ inline float greatest_of(const float* parts, int count) {
  float greatest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    greatest = fmaxf(greatest, parts[i]);
  return block_reduce(greatest, Greatest{});
}

// The codes are of x times 7 / 8 power / divisor.
struct Fp8Scaling {
  float divisor, power;
  __nv_fp8_interpretation_t format;

  __device__ float operator()(float x) const { return x * kSevenEighths / divisor * power; }
};

// As many elements as a load has, or two.
template <int kWidth>
inline constexpr int kLoaded = kWidth == 1 ? 2 : kWidth;
template <int kWidth, typename T>
__device__ inline Values<float, kLoaded<kWidth>> load_pairs(const T* x) {
  if constexpr (kWidth == 1) {
    return {widen(x[0]), widen(x[1])};
  } else {
    return load<kWidth>(x);
  }
}

using CodePack = Pack<std::uint16_t, kCodes / 2>;  // pairs of codes

template <int kWidth, typename T>
__device__ inline CodePack codes_of(const T* x, const Fp8Scaling& scaled) {
  CodePack codes;
#pragma unroll
  for (int i = 0; i < kCodes; i += kLoaded<kWidth>) {
    const auto v = load_pairs<kWidth>(x + i);
#pragma unroll
    for (int k = 0; k < kLoaded<kWidth>; k += 2)
      codes.at[(i + k) / 2] = __nv_cvt_float2_to_fp8x2({scaled(v.at[k]), scaled(v.at[k + 1])},
                                                       __NV_SATFINITE, scaled.format);
  }
  return codes;
}

// A tile is turned in shared memory, so that both sides move rows of 16 bytes.
template <typename T, int kWidth, bool kTransposes>
__global__ void cast_fp8_kernel(CastFp8<T> c, int parts) {
  const float greatest = greatest_of(c.parts, parts);
  const Fp8Scaling scaled{greatest > 0 ? greatest : 1.0f, power_of(c.format),
                          interpretation(c.format)};
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *c.scale = greatest > 0 ? greatest / (kSevenEighths * scaled.power) : 1.0f;
  const int line = static_cast<int>(threadIdx.x) / kTileChunks;
  const int chunk = static_cast<int>(threadIdx.x) % kTileChunks * kCodes;
  const std::int64_t across = (c.columns + kCastTile - 1) / kCastTile;
  const std::int64_t down = (c.rows + kCastTile - 1) / kCastTile;
  for_rows(across * down, [&](std::int64_t tile) {
    const std::int64_t row = tile / across * kCastTile, column = tile % across * kCastTile;
    const bool reads = row + line < c.rows && column + chunk < c.columns;
    CodePack codes;
    if (reads) codes = codes_of<kWidth>(c.x + (row + line) * c.columns + column + chunk, scaled);
    if constexpr (!kTransposes) {
      if (reads)
        store_words(reinterpret_cast<uint4*>(c.codes + (row + line) * c.columns + column + chunk),
                    bits_as<uint4>(codes));
    } else {
      // A row is a column of the tile, with a pack beside it that nobody uses.
      __shared__ uint4 turned[kCastTile][kTileChunks + 1];
      if (reads) {
#pragma unroll
        for (int j = 0; j < kCodes; ++j)
          reinterpret_cast<std::uint8_t*>(turned[chunk + j])[line] =
              static_cast<std::uint8_t>(codes.at[j / 2] >> (j % 2 == 0 ? 0 : 8));
      }
      __syncthreads();
      if (column + line < c.columns && row + chunk < c.rows)
        store_words(reinterpret_cast<uint4*>(c.codes + (column + line) * c.rows + row + chunk),
                    turned[line][chunk / kCodes]);
      __syncthreads();  // may be written again
    }
  });
}

__device__ inline float decoded(std::uint8_t code, Fp8Format format) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, interpretation(format))));
}

// One row a block.
template <typename G>
__global__ void row_sums_fp8_kernel(G* out, const std::uint8_t* codes, const float* scale,
                                    std::int64_t rows, std::int64_t columns, Fp8Format format,
                                    bool accumulate) {
  for_rows(rows, [&](std::int64_t row) {
    float sum = 0;
    for_columns<kCodes>(columns, [&](std::int64_t j) {
      const auto pack = bits_as<Pack<std::uint8_t, kCodes>>(
          *reinterpret_cast<const uint4*>(codes + row * columns + j));
#pragma unroll
      for (int k = 0; k < kCodes; ++k) sum += decoded(pack.at[k], format);
    });
    sum = block_sum(sum) * *scale;
    if (threadIdx.x == 0) out[row] = narrow<G>(accumulate ? widen(out[row]) + sum : sum);
  });
}

}  // namespace zplan::exec::cuda
