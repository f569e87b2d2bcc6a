// Scratch memory of the CPU kernels: the caller owns it, a kernel cuts it into aligned pieces.
// Every kernel that needs scratch has a function that tells its size; no kernel allocates its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "planner/core/error.h"
#include "planner/core/units.h"

namespace zplan::exec::cpu {

// Workspace handed in by the caller; 64-byte aligned, contents undefined before and after a call.
using Scratch = std::span<std::byte>;

inline constexpr std::int64_t kScratchAlignBytes = 64;  // one cache line, one AVX-512 register

// Bytes of `count` elements of T, rounded up so that the next piece starts aligned.
template <typename T>
constexpr std::int64_t aligned_bytes(std::int64_t count) {
  return round_up(count * static_cast<std::int64_t>(sizeof(T)), kScratchAlignBytes);
}

// Cuts aligned pieces off the front of a scratch span.
class ScratchCutter {
 public:
  explicit ScratchCutter(Scratch scratch) : rest_(scratch) {}

  template <typename T>
  T* take(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(aligned_bytes<T>(count));
    ZPLAN_ASSERT(bytes <= rest_.size());
    T* piece = reinterpret_cast<T*>(rest_.data());
    rest_ = rest_.subspan(bytes);
    return piece;
  }

 private:
  Scratch rest_;
};

}  // namespace zplan::exec::cpu
