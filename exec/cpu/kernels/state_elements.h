// Optimizer states whose type is known at run time: how updates load them into the type of the
// computation, store them, 16 bits stochastically rounded, and write the parameters. Internal to
// exec/cpu/kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "exec/cpu/kernels/half.h"
#include "exec/cpu/kernels/optimizer.h"
#include "planner/core/error.h"

namespace zplan::exec::cpu {

template <typename T>
T* at(const Elements& elements, std::int64_t i) {
  return static_cast<T*>(elements.data) + i;
}

// Calls body(T*) with the elements from i on.
template <typename Body>
void with_type(const Elements& elements, std::int64_t i, const Body& body) {
  switch (elements.type) {
    case DType::kF64:
      return body(at<double>(elements, i));
    case DType::kF32:
      return body(at<float>(elements, i));
    case DType::kBf16:
      return body(at<Bf16>(elements, i));
    case DType::kF16:
      return body(at<Fp16>(elements, i));
    case DType::kI32:
    case DType::kU8:
      break;
  }
  ZPLAN_ASSERT(false);
}

template <typename To, typename From>
void convert(To* to, const From* from, std::int64_t n) {
  using Widened = std::conditional_t<kIsHalf<To> || kIsHalf<From>, float, From>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(static_cast<Widened>(from[i]));
}

// The new master as the parameters that kernels read; nothing where they are one.
inline void write_param(const Elements& master, const Elements& param, std::int64_t begin,
                        std::int64_t n) {
  if (param.data == nullptr || param.data == master.data) return;
  with_type(master, begin,
            [&](auto* from) { with_type(param, begin, [&](auto* to) { convert(to, from, n); }); });
}

inline bool has_16_bits(DType type) { return type == DType::kBf16 || type == DType::kF16; }

// Elements worked on at a time where types are mixed: 14 KiB with the random words.
constexpr std::int64_t kMixedBlock = 512;

// Sixteen random bits per element for the master and for each moment.
class BlockDraws {
 public:
  // Elements from flat index `first` on; one draw of four words serves two elements.
  BlockDraws(const RoundingDraws& draws, std::uint64_t first, std::int64_t n)
      : offset_(static_cast<std::int64_t>(first % 2)) {
    const std::int64_t pairs = (offset_ + n + 1) / 2;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::uint64_t pair = first / 2 + static_cast<std::uint64_t>(i);
      const PhiloxCounter words =
          philox4x32({static_cast<std::uint32_t>(pair),
                      static_cast<std::uint32_t>(pair >> 32) | kDomain, draws.step, draws.place},
                     draws.key);
      std::copy(words.begin(), words.end(), words_ + 4 * i);
    }
  }
  std::uint32_t of_master(std::int64_t i) const { return words_[2 * (offset_ + i)]; }
  std::uint32_t of_m(std::int64_t i) const { return words_[2 * (offset_ + i)] >> 16; }
  std::uint32_t of_v(std::int64_t i) const { return words_[2 * (offset_ + i) + 1]; }

 private:
  static constexpr std::uint32_t kDomain = 0x80000000u;  // no other draw has so great an index
  std::int64_t offset_;
  std::uint32_t words_[2 * kMixedBlock + 4];
};

// draw(i): random bits of element i.
template <typename C, typename Draw>
void store(const Elements& elements, std::int64_t begin, const C* from, std::int64_t n,
           const Draw& draw) {
  with_type(elements, begin, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    if constexpr (kIsHalf<T>) {
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = round_stochastically<T>(static_cast<float>(from[i]), draw(i));
    } else {
      convert(to, from, n);
    }
  });
}

}  // namespace zplan::exec::cpu
