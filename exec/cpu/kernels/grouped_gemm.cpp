#include "exec/cpu/kernels/grouped_gemm.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

// Whether floats are multiplied on tile registers, however few rows an expert has.
bool on_tile_registers(const GroupedShape& s) {
  return amx_multiplies({.m = s.in, .n = s.out, .k = std::min(s.in, s.out)});
}

template <typename T, typename C>
void multiply(const GroupedShape& s, const GemmShape& shape, const GemmOperands<T, C>& operands,
              Scratch scratch) {
  if constexpr (kIsHalf<T>) {
    mixed_gemm<T, C>(shape, operands, scratch);
  } else {
    if constexpr (std::is_same_v<T, float>) {
      if (on_tile_registers(s)) return amx_gemm(shape, operands, scratch);
    }
    blocked_gemm<T>(shape, operands, scratch);
  }
}

// Calls body(expert, first row, rows) for the rows of each part and expert.
template <typename Body>
void for_groups(const GroupedShape& s, const std::int32_t* counts, const Body& body) {
  for (std::int64_t g = 0; g < s.ranks; ++g) {
    std::int64_t row = g * s.room;
    for (std::int64_t e = 0; e < s.experts; ++e) {
      const std::int64_t rows = counts[g * s.experts + e];
      if (rows > 0) body(e, row, rows);
      row += rows;
    }
  }
}

// Zeros behind the rows of each part.
template <typename T>
void clear_padding(const GroupedShape& s, T* rows, std::int64_t width, const std::int32_t* counts) {
  for (std::int64_t g = 0; g < s.ranks; ++g) {
    std::int64_t used = 0;
    for (std::int64_t e = 0; e < s.experts; ++e) used += counts[g * s.experts + e];
    std::fill_n(rows + (g * s.room + used) * width, (s.room - used) * width, static_cast<T>(0.0F));
  }
}

// y = x w, or x w^T, of the rows of each expert with its matrix, n columns of sums over k; or adds
// it.
template <typename T>
void multiply_groups(const GroupedShape& s, GemmOp op, std::int64_t n, std::int64_t k, T* y,
                     const T* x, const T* w, const std::int32_t* counts, bool adds,
                     Scratch scratch) {
  if (!adds) clear_padding(s, y, n, counts);
  for_groups(s, counts, [&](std::int64_t expert, std::int64_t row, std::int64_t rows) {
    multiply<T, T>(s, {.op = op, .m = rows, .n = n, .k = k, .accumulate = adds},
                   {x + row * k, w + expert * n * k, y + row * n}, scratch);
  });
}

}  // namespace

template <typename T>
void grouped_forward(const GroupedShape& s, T* y, const T* x, const T* w,
                     const std::int32_t* counts, bool adds, Scratch scratch) {
  multiply_groups(s, GemmOp::kNN, s.out, s.in, y, x, w, counts, adds, scratch);
}

template <typename T>
void grouped_input_gradient(const GroupedShape& s, T* dx, const T* dy, const T* w,
                            const std::int32_t* counts, bool adds, Scratch scratch) {
  multiply_groups(s, GemmOp::kNT, s.in, s.out, dx, dy, w, counts, adds, scratch);
}

template <typename T, typename G>
void grouped_weight_gradient(const GroupedShape& s, G* dw, const T* x, const T* dy,
                             const std::int32_t* counts, bool adds, Scratch scratch) {
  if (!adds) std::fill_n(dw, s.experts * s.in * s.out, static_cast<G>(0.0F));
  for_groups(s, counts, [&](std::int64_t expert, std::int64_t row, std::int64_t rows) {
    multiply<T, G>(s, {.op = GemmOp::kTN, .m = s.in, .n = s.out, .k = rows, .accumulate = true},
                   {x + row * s.in, dy + row * s.out, dw + expert * s.in * s.out}, scratch);
  });
}

template <typename T>
void add_expert_biases(const GroupedShape& s, const ExpertBiases& at, T* y, const T* bias,
                       const std::int32_t* counts) {
  using C = Compute<T>;
  for_groups(s, counts, [&](std::int64_t expert, std::int64_t row, std::int64_t rows) {
    const T* own = bias + expert * at.columns;
    for_rows(rows, at.columns, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        T* columns = y + (row + i) * s.out + at.first;
        for (std::int64_t j = 0; j < at.columns; ++j)
          columns[j] = static_cast<T>(static_cast<C>(columns[j]) + static_cast<C>(own[j]));
      }
    });
  });
}

template <typename T, typename G>
void expert_bias_gradient(const GroupedShape& s, const ExpertBiases& at, G* dbias, const T* dy,
                          const std::int32_t* counts, bool adds) {
  using C = Compute<T>;
  for_columns(s.ranks * s.room, at.columns, [&](std::int64_t begin, std::int64_t end) {
    const auto width = static_cast<std::size_t>(end - begin);
    for (std::int64_t expert = 0; expert < s.experts; ++expert) {
      std::array<C, kColumnBlock> sums{};
      for_groups(s, counts, [&](std::int64_t of, std::int64_t row, std::int64_t rows) {
        for (std::int64_t i = row; i < row + rows && of == expert; ++i)
          for (std::size_t j = 0; j < width; ++j)
            sums[j] += static_cast<C>(dy[i * s.out + at.first + begin + std::int64_t(j)]);
      });
      G* own = dbias + expert * at.columns + begin;
      for (std::size_t j = 0; j < width; ++j)
        own[j] = static_cast<G>(adds ? static_cast<C>(own[j]) + sums[j] : sums[j]);
    }
  });
}

template <typename T>
Bytes grouped_scratch_bytes(const GroupedShape& s) {
  if constexpr (kIsHalf<T>) return mixed_gemm_scratch_bytes();
  if constexpr (std::is_same_v<T, float>) {
    if (on_tile_registers(s)) return amx_gemm_scratch_bytes();
  }
  const std::int64_t most = std::max({s.in, s.out, s.room});
  return blocked_gemm_scratch_bytes<Compute<T>>({.m = most, .n = most, .k = most});
}

#define ZPLAN_INSTANTIATE(T)                                                                 \
  template void grouped_forward<T>(const GroupedShape&, T*, const T*, const T*,              \
                                   const std::int32_t*, bool, Scratch);                      \
  template void grouped_input_gradient<T>(const GroupedShape&, T*, const T*, const T*,       \
                                          const std::int32_t*, bool, Scratch);               \
  template void add_expert_biases<T>(const GroupedShape&, const ExpertBiases&, T*, const T*, \
                                     const std::int32_t*);                                   \
  template Bytes grouped_scratch_bytes<T>(const GroupedShape&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                                    \
  template void grouped_weight_gradient<T, G>(const GroupedShape&, G*, const T*, const T*,         \
                                              const std::int32_t*, bool, Scratch);                 \
  template void expert_bias_gradient<T, G>(const GroupedShape&, const ExpertBiases&, G*, const T*, \
                                           const std::int32_t*, bool);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
