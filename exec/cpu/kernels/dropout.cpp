#include "exec/cpu/kernels/dropout.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"
#include "planner/core/random.h"

namespace zplan::exec::cpu {
namespace {

constexpr int kHeadBits = 16, kPositionBits = 20;
constexpr std::int64_t kWords = 4;  // of a draw

// Calls keep(column, 1 or 0) for a row of the step.
template <typename Keep>
void draw_row(const DropoutDraws& draws, std::uint64_t row, std::int64_t columns,
              const Keep& keep) {
  const double least = draws.rate * 4294967296.0;  // 2^32
  for (std::int64_t from = 0; from < columns; from += kWords) {
    const PhiloxCounter words =
        philox4x32({low32(row), high32(row), static_cast<std::uint32_t>(from / kWords), draws.step},
                   draws.key);
    const std::int64_t n = std::min(kWords, columns - from);
    for (std::int64_t i = 0; i < n; ++i)
      keep(from + i, words[static_cast<std::size_t>(i)] < least ? 0 : 1);
  }
}

}  // namespace

std::uint64_t DropoutRows::number(std::int64_t row) const {
  const std::int64_t at = first_row + row, per_sequence = inner * per_inner;
  const auto sequence = static_cast<std::uint64_t>(first_sequence + at / per_sequence);
  const std::int64_t within = at % per_sequence;
  if (!of_heads)
    return (sequence << kPositionBits) + static_cast<std::uint64_t>(first_inner + within);
  const auto head = static_cast<std::uint64_t>(first_inner + within / per_inner);
  return (((sequence << kHeadBits) + head) << kPositionBits) +
         static_cast<std::uint64_t>(within % per_inner);
}

PhiloxKey dropout_key(std::uint64_t seed, std::int64_t layer, std::uint8_t part) {
  constexpr std::uint32_t kMark = std::uint32_t{1} << 31;
  const auto place = static_cast<std::uint32_t>(layer << 8) | part;
  return {low32(seed), high32(seed) ^ (kMark + place)};
}

template <typename T>
void dropout_forward(const DropoutRows& s, const DropoutDraws& draws, T* y, std::uint8_t* mask,
                     const T* x) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / (1 - draws.rate));
  for_rows(s.rows, s.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      draw_row(draws, s.number(row), s.columns, [&](std::int64_t column, int kept) {
        const std::int64_t i = row * s.columns + column;
        mask[i] = static_cast<std::uint8_t>(kept);
        y[i] = kept != 0 ? static_cast<T>(static_cast<C>(x[i]) * scale) : static_cast<T>(0);
      });
  });
}

template <typename T>
void dropout_backward(std::int64_t n, double rate, T* dx, const T* dy, const std::uint8_t* mask) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / (1 - rate));
  for_elements(n, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      dx[i] = mask[i] != 0 ? static_cast<T>(static_cast<C>(dy[i]) * scale) : static_cast<T>(0);
  });
}

template <typename T>
void dropout_residual_add(const DropoutRows& s, const DropoutDraws& draws, T* out,
                          std::uint8_t* mask, const T* x, const T* y, const T* bias) {
  using C = Compute<T>;
  const C scale = static_cast<C>(1 / (1 - draws.rate));
  for_rows(s.rows, s.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      draw_row(draws, s.number(row), s.columns, [&](std::int64_t column, int kept) {
        const std::int64_t i = row * s.columns + column;
        const C shift = bias != nullptr ? static_cast<C>(bias[column]) : static_cast<C>(0);
        const C added = kept != 0 ? (static_cast<C>(y[i]) + shift) * scale : static_cast<C>(0);
        mask[i] = static_cast<std::uint8_t>(kept);
        out[i] = static_cast<T>(static_cast<C>(x[i]) + added);
      });
  });
}

#define ZPLAN_INSTANTIATE(T)                                                                   \
  template void dropout_forward<T>(const DropoutRows&, const DropoutDraws&, T*, std::uint8_t*, \
                                   const T*);                                                  \
  template void dropout_backward<T>(std::int64_t, double, T*, const T*, const std::uint8_t*);  \
  template void dropout_residual_add<T>(const DropoutRows&, const DropoutDraws&, T*,           \
                                        std::uint8_t*, const T*, const T*, const T*);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
