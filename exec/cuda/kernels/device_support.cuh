// What the kernels of this folder share on the device: conversions, 16-byte packs of elements,
// loops over them and deterministic reductions over a block.
// Arithmetic is in Compute<T>, float but of double; narrowing rounds to the nearest, ties to even.
// All blocks are whole warps, and no thread leaves a kernel early.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace zplan::exec::cuda {

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float widen(float value) { return value; }
__device__ inline double widen(double value) { return value; }
__device__ inline float widen(__half value) { return __half2float(value); }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ inline T narrow(Compute<T> value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else {
    return value;
  }
}

// ---- packs: kWidth neighbours, moved 16 bytes at a time where they fill so many
// ------------------

template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth < 16 ? sizeof(T) * kWidth : 16) Pack {
  T at[kWidth];
};

// Words that are moved at once: 16 bytes as one, 32 as two.
struct Words8 {
  uint4 at[2];
};
template <std::size_t kBytes>
using Words = std::conditional_t<
    kBytes == 2, unsigned short,
    std::conditional_t<
        kBytes == 4, unsigned,
        std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 16, uint4, Words8>>>>;

// The same in words, as memory is asked for it and as registers keep it.
template <typename T, int kWidth>
struct PackBits {
  static_assert(sizeof(T) * kWidth <= sizeof(Words8));
  Words<sizeof(T) * kWidth> words;
};

template <typename C, int kWidth>
struct Values {
  C at[kWidth];
};

template <int kWidth, typename T>
__device__ inline PackBits<T, kWidth> load_bits(const T* from) {
  return {*reinterpret_cast<const Words<sizeof(T) * kWidth>*>(from)};
}

// What a compiler may not take apart into smaller accesses.
__device__ inline void store_words(uint4* to, const uint4& words) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
#else
  *to = words;
#endif
}

template <int kWidth, typename T>
__device__ inline void store_bits(T* to, const PackBits<T, kWidth>& bits) {
  constexpr std::size_t kBytes = sizeof(T) * kWidth;
  if constexpr (kBytes == 16) {
    store_words(reinterpret_cast<uint4*>(to), bits.words);
  } else if constexpr (kBytes == 32) {
    store_words(reinterpret_cast<uint4*>(to), bits.words.at[0]);
    store_words(reinterpret_cast<uint4*>(to) + 1, bits.words.at[1]);
  } else {
    *reinterpret_cast<Words<kBytes>*>(to) = bits.words;
  }
}

template <typename To, typename From>
__device__ inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

// Two neighbours of 16 bits in a word.
template <typename T>
__device__ inline Values<float, 2> widen_pair(std::uint32_t word) {
  if constexpr (std::is_same_v<T, __half>) {
    const auto pair = bits_as<__half2>(word);
    return {__low2float(pair), __high2float(pair)};
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
}

template <typename T>
__device__ inline std::uint32_t narrow_pair(float first, float second) {
  if constexpr (std::is_same_v<T, __half>) {
    return bits_as<std::uint32_t>(__floats2half2_rn(first, second));
  } else {
    return bits_as<std::uint32_t>(__floats2bfloat162_rn(first, second));
  }
}

// What lies in pairs is taken apart by the word: a compiler that sees halves moves them one by one.
template <typename T, int kWidth>
inline constexpr bool kHasPairs = sizeof(T) == 2 && kWidth % 2 == 0;

template <typename T, int kWidth>
__device__ inline Values<Compute<T>, kWidth> widen(const PackBits<T, kWidth>& bits) {
  Values<Compute<T>, kWidth> values;
  if constexpr (kHasPairs<T, kWidth>) {
    const auto words = bits_as<Pack<std::uint32_t, kWidth / 2>>(bits.words);
#pragma unroll
    for (int k = 0; k < kWidth / 2; ++k) {
      const auto pair = widen_pair<T>(words.at[k]);
      values.at[2 * k] = pair.at[0];
      values.at[2 * k + 1] = pair.at[1];
    }
  } else {
    const auto pack = bits_as<Pack<T, kWidth>>(bits.words);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) values.at[k] = widen(pack.at[k]);
  }
  return values;
}

template <typename T, int kWidth>
__device__ inline PackBits<T, kWidth> narrow_pack(const Values<Compute<T>, kWidth>& values) {
  using Words = decltype(PackBits<T, kWidth>::words);
  if constexpr (kHasPairs<T, kWidth>) {
    Pack<std::uint32_t, kWidth / 2> words;
#pragma unroll
    for (int k = 0; k < kWidth / 2; ++k)
      words.at[k] = narrow_pair<T>(values.at[2 * k], values.at[2 * k + 1]);
    return {bits_as<Words>(words)};
  } else {
    Pack<T, kWidth> pack;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) pack.at[k] = narrow<T>(values.at[k]);
    return {bits_as<Words>(pack)};
  }
}

template <int kWidth, typename T>
__device__ inline Values<Compute<T>, kWidth> load(const T* from) {
  return widen(load_bits<kWidth>(from));
}

template <int kWidth, typename T>
__device__ inline void store(T* to, const Values<Compute<T>, kWidth>& values) {
  store_bits<kWidth>(to, narrow_pack<T>(values));
}

// ---- loops
// ---------------------------------------------------------------------------------------

template <int kWidth>
using Width = std::integral_constant<int, kWidth>;

__device__ inline std::int64_t thread_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t threads_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// Calls body(Width, i) for packs of n elements and then, one by one, for those left over.
template <int kWidth, typename Body>
__device__ inline void for_packs(std::int64_t n, const Body& body) {
  const std::int64_t packed = n / kWidth * kWidth, stride = threads_of_grid();
  for (std::int64_t i = thread_of_grid() * kWidth; i < packed; i += stride * kWidth)
    body(Width<kWidth>{}, i);
  if constexpr (kWidth > 1) {
    for (std::int64_t i = packed + thread_of_grid(); i < n; i += stride) body(Width<1>{}, i);
  }
}

// For more loads under way than one: read(i) of kAhead places begin, begin + stride .. before end,
// then write(i, what was read) of each.
template <int kAhead, typename Index, typename Read, typename Write>
__device__ inline void for_ahead(Index begin, Index end, Index stride, const Read& read,
                                 const Write& write) {
#pragma unroll 1
  for (Index i = begin; i < end; i += kAhead * stride) {
    decltype(read(i)) ahead[kAhead]{};
#pragma unroll
    for (int p = 0; p < kAhead; ++p)
      if (i + p * stride < end) ahead[p] = read(i + p * stride);
#pragma unroll
    for (int p = 0; p < kAhead; ++p)
      if (i + p * stride < end) write(i + p * stride, ahead[p]);
  }
}

// As for_packs, with kAhead packs under way: read(Width, i), then write(Width, i, what was read).
template <int kWidth, int kAhead, typename Read, typename Write>
__device__ inline void for_packs_ahead(std::int64_t n, const Read& read, const Write& write) {
  const std::int64_t packed = n / kWidth * kWidth, thread = thread_of_grid();
  const auto run = [&](auto width, std::int64_t begin, std::int64_t end) {
    constexpr int w = decltype(width)::value;
    for_ahead<w == kWidth ? kAhead : 1>(
        begin, end, threads_of_grid() * w, [&](std::int64_t i) { return read(width, i); },
        [&](std::int64_t i, const auto& value) { write(width, i, value); });
  };
  run(Width<kWidth>{}, thread * kWidth, packed);
  if constexpr (kWidth > 1) run(Width<1>{}, packed + thread, n);
}

// Calls body(row) for the rows of this block.
template <typename Body>
__device__ inline void for_rows(std::int64_t rows, const Body& body) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(row);
}

// Calls body(j) with the packs of a row that are this thread's; kWidth divides columns.
template <int kWidth, typename Body>
__device__ inline void for_columns(std::int64_t columns, const Body& body) {
  const std::int64_t stride = static_cast<std::int64_t>(blockDim.x) * kWidth;
  for (std::int64_t j = static_cast<std::int64_t>(threadIdx.x) * kWidth; j < columns; j += stride)
    body(j);
}

// The same with the first kPacks that are this thread's: body(p, j) with their numbers p.
template <int kWidth, int kPacks, typename Body>
__device__ inline void for_own_packs(int columns, const Body& body) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int j = static_cast<int>(threadIdx.x + p * blockDim.x) * kWidth;
    if (j < columns) body(p, j);
  }
}

// ---- reductions
// ----------------------------------------------------------------------------------

inline constexpr int kWarp = 32;
// [assumed] of a block: eight warps hide latency and leave eight blocks for a multiprocessor.
inline constexpr int kThreads = 256;
inline constexpr int kMostRowThreads = 512;  // [assumed] of a block that has a row to itself
inline constexpr int kMostWarps = 32;        // of a block
inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Add {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};

__device__ inline float of_lane(float value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
__device__ inline double of_lane(double value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}

// The values of all threads of a block merged, in an order set by the block's size alone; every
// thread has the result. `merge` is commutative. of_lane(V, mask) is the V of another lane.
template <typename V, typename Merge>
__device__ inline V block_reduce(V value, const Merge& merge) {
  __shared__ V of_warps[kMostWarps];
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value = merge(value, of_lane(value, mask));
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x % kWarp == 0) of_warps[warp] = value;
  __syncthreads();
  V result = of_warps[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w)
    result = merge(result, of_warps[w]);
  __syncthreads();  // of_warps may be written again
  return result;
}

template <typename V>
__device__ inline V block_sum(V value) {
  return block_reduce(value, Add{});
}

}  // namespace zplan::exec::cuda
