// The bit pattern that stands for "nothing was written here". Slabs are filled with it before a
// run; guarded runs fill destinations and scratch with it before each operation. [derived]
// 0xfff5 is a NaN of bf16 and fp16, two of it one of float32, whose payloads no operation produces
// by itself; four are a signalling NaN of float64; as int32 it is negative, hence no token. So a
// value computed from unwritten memory is NaN, and the pattern in a result means that it was not
// written.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "planner/core/units.h"

namespace zplan::exec {

inline constexpr std::uint16_t kPoisonHalf = 0xfff5;
inline constexpr std::uint32_t kPoisonWord = 0x10001u * kPoisonHalf;
inline constexpr std::uint64_t kPoisonPair = (std::uint64_t{kPoisonWord} << 32) | kPoisonWord;

inline constexpr auto kPoisonBlock = [] {
  std::array<std::uint16_t, 2048> block{};
  block.fill(kPoisonHalf);
  return block;
}();

// `bytes` and the address are even.
inline void fill_poison(std::byte* data, Bytes bytes) {
  constexpr std::int64_t kBlock = sizeof kPoisonBlock;
  for (std::int64_t i = 0; i < bytes.value; i += kBlock)
    std::memcpy(data + i, kPoisonBlock.data(),
                static_cast<std::size_t>(std::min(bytes.value - i, kBlock)));
}

// The same of a new slab, by all cores: most of it is the system's work of handing out pages.
void poison_slab(std::byte* data, Bytes size);

// Of bytes that are used from their begin on and held poison before: up to the first block that
// still does.
inline void refill_poison(std::byte* data, Bytes bytes) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 16;
  for (std::int64_t i = 0; i < bytes.value; i += kBlock) {
    const std::int64_t size = std::min(bytes.value - i, kBlock);
    const bool is_poison = std::memcmp(data + i, &kPoisonHalf, sizeof kPoisonHalf) == 0 &&
                           std::memcmp(data + i, data + i + sizeof kPoisonHalf,
                                       static_cast<std::size_t>(size) - sizeof kPoisonHalf) == 0;
    if (is_poison) return;
    fill_poison(data + i, Bytes{size});
  }
}

// Elements are compared whole: half a float64 may look like the pattern by chance.
template <typename Word>
const std::byte* find_word(const std::byte* begin, const std::byte* end, Word pattern) {
  for (const std::byte* p = begin; p < end; p += sizeof pattern)
    if (std::memcmp(p, &pattern, sizeof pattern) == 0) return p;
  return nullptr;
}

// The first unwritten element of [begin, end), or null. Elements are of 2, 4 or 8 bytes.
inline const std::byte* find_poison(const std::byte* begin, const std::byte* end, Bytes element) {
  if (element.value == sizeof kPoisonPair) return find_word(begin, end, kPoisonPair);
  if (element.value == sizeof kPoisonHalf) return find_word(begin, end, kPoisonHalf);
  return find_word(begin, end, kPoisonWord);
}

}  // namespace zplan::exec
