// These put rows of images among those of tokens, take them out again, and average rows.
#pragma once

#include <cstdint>

namespace zplan::exec::cpu {

// The first `images` of every `sequence` tokens are of images; x has `tokens` of all of them, from
// token `first` on, of h elements.
struct ImageRowsShape {
  std::int64_t tokens, h, sequence, images, first;
};

template <typename T>
void put_rows(const ImageRowsShape& shape, const T* y, T* x);
// The last argument counts the rows of dy.
template <typename T>
void take_rows(const ImageRowsShape& shape, T* dx, T* dy, std::int64_t rows);

// y [rows, h]; each is the mean of `of` rows of x.
template <typename T>
void mean_rows(const T* x, T* y, std::int64_t rows, std::int64_t of, std::int64_t h);
template <typename T>
void mean_rows_gradient(const T* dy, T* dx, std::int64_t rows, std::int64_t of, std::int64_t h);

}  // namespace zplan::exec::cpu
