#include "exec/cpu/kernels/image_rows.h"

#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

// Calls visit(token of x, row of an image) with each token of x that is of an image.
template <typename Visit>
void each_image_row(const ImageRowsShape& s, const Visit& visit) {
  for (std::int64_t i = 0; i < s.tokens; ++i) {
    const std::int64_t token = s.first + i, place = token % s.sequence;
    if (place < s.images) visit(i, token / s.sequence * s.images + place);
  }
}

}  // namespace

template <typename T>
void put_rows(const ImageRowsShape& s, const T* y, T* x) {
  each_image_row(
      s, [&](std::int64_t i, std::int64_t row) { std::copy_n(y + row * s.h, s.h, x + i * s.h); });
}

template <typename T>
void take_rows(const ImageRowsShape& s, T* dx, T* dy, std::int64_t rows) {
  std::fill_n(dy, rows * s.h, static_cast<T>(0));
  each_image_row(s, [&](std::int64_t i, std::int64_t row) {
    std::copy_n(dx + i * s.h, s.h, dy + row * s.h);
    std::fill_n(dx + i * s.h, s.h, static_cast<T>(0));
  });
}

template <typename T>
void mean_rows(const T* x, T* y, std::int64_t rows, std::int64_t of, std::int64_t h) {
  using C = Compute<T>;
  for_rows(rows, h, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t j = 0; j < h; ++j) {
        C sum = 0;
        for (std::int64_t i = 0; i < of; ++i) sum += static_cast<C>(x[(row * of + i) * h + j]);
        y[row * h + j] = static_cast<T>(sum / static_cast<C>(of));
      }
  });
}

template <typename T>
void mean_rows_gradient(const T* dy, T* dx, std::int64_t rows, std::int64_t of, std::int64_t h) {
  using C = Compute<T>;
  for_rows(rows * of, h, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t j = 0; j < h; ++j)
        dx[row * h + j] = static_cast<T>(static_cast<C>(dy[row / of * h + j]) / static_cast<C>(of));
  });
}

#define ZPLAN_INSTANTIATE(T)                                                          \
  template void put_rows<T>(const ImageRowsShape&, const T*, T*);                     \
  template void take_rows<T>(const ImageRowsShape&, T*, T*, std::int64_t);            \
  template void mean_rows<T>(const T*, T*, std::int64_t, std::int64_t, std::int64_t); \
  template void mean_rows_gradient<T>(const T*, T*, std::int64_t, std::int64_t, std::int64_t);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
