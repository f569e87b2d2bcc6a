// Elements on the device: conversions, and packs of kWidth neighbours, moved 16 bytes at a time
// where they fill so many. Arithmetic is in Compute<T>, float but of double; narrowing rounds to
// the nearest, ties to even.
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

}  // namespace zplan::exec::cuda
