// The bit pattern that stands for "nothing was written here". Slabs are filled with it before a
// run; guarded runs fill destinations and scratch with it before each operation. [derived]
// 0xfff5c3e7 is a NaN of float32 whose payload no operation produces by itself; two of them are a
// signalling NaN of float64; as int32 it is negative, hence no token. So a value computed from
// unwritten memory is NaN, and the pattern in a result means that it was not written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "planner/core/units.h"

namespace zplan::exec {

inline constexpr std::uint32_t kPoisonWord = 0xfff5c3e7;
inline constexpr std::uint64_t kPoisonPair = (std::uint64_t{kPoisonWord} << 32) | kPoisonWord;

// `bytes` and the address are multiples of four.
inline void fill_poison(std::byte* data, Bytes bytes) {
  constexpr std::int64_t kWord = sizeof kPoisonWord, kChunk = 1 << 12;
  const std::int64_t seed = std::min(bytes.value, kChunk);
  for (std::int64_t i = 0; i < seed; i += kWord) std::memcpy(data + i, &kPoisonWord, kWord);
  for (std::int64_t i = seed; i < bytes.value; i += kChunk)
    std::memcpy(data + i, data, static_cast<std::size_t>(std::min(bytes.value - i, kChunk)));
}

// Elements are compared whole: half a float64 may look like the pattern by chance.
template <typename Word>
const std::byte* find_word(const std::byte* begin, const std::byte* end, Word pattern) {
  for (const std::byte* p = begin; p < end; p += sizeof pattern)
    if (std::memcmp(p, &pattern, sizeof pattern) == 0) return p;
  return nullptr;
}

// The first unwritten element of [begin, end), or null. Elements are of 4 or 8 bytes.
inline const std::byte* find_poison(const std::byte* begin, const std::byte* end, Bytes element) {
  return element.value == sizeof kPoisonPair ? find_word(begin, end, kPoisonPair)
                                             : find_word(begin, end, kPoisonWord);
}

}  // namespace zplan::exec
