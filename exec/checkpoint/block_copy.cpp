#include "exec/checkpoint/block_copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr std::int64_t kTile = 32;  // rows and columns: 8 KiB of either side at most

// Calls move(element of the block, element of the memory, length) for elements that lie side by
// side in both.
template <typename Move>
void for_sides(const FiledTensor& tensor, const FileBlock& at, const BlockRows& rows,
               std::int64_t stride, const Move& move) {
  const std::int64_t first = rows.column - at.column;
  if (!at.transposed) {
    for (std::int64_t r = 0; r < rows.rows; ++r)
      move((rows.row + r) * at.columns + first, r * stride, rows.columns);
    return;
  }
  for (std::int64_t from_c = 0; from_c < rows.columns; from_c += kTile)
    for (std::int64_t from_r = 0; from_r < rows.rows; from_r += kTile)
      for (std::int64_t c = from_c; c < std::min(from_c + kTile, rows.columns); ++c)
        for (std::int64_t r = from_r; r < std::min(from_r + kTile, rows.rows); ++r)
          move((first + c) * tensor.rows + rows.row + r, r * stride + c, 1);
}

// Elements of a known size. Those of a file may begin anywhere.
template <std::size_t kSize>
void read(const FiledTensor& tensor, const FileBlock& at, const std::byte* block,
          const BlockRows& rows, std::byte* memory, std::int64_t stride) {
  for_sides(tensor, at, rows, stride, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    const std::size_t bytes = n == 1 ? kSize : static_cast<std::size_t>(n) * kSize;
    std::memcpy(memory + to * std::int64_t{kSize}, block + from * std::int64_t{kSize}, bytes);
  });
}
template <std::size_t kSize>
void write(const FiledTensor& tensor, const FileBlock& at, std::byte* block, const BlockRows& rows,
           const std::byte* memory, std::int64_t stride) {
  for_sides(tensor, at, rows, stride, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    const std::size_t bytes = n == 1 ? kSize : static_cast<std::size_t>(n) * kSize;
    std::memcpy(block + to * std::int64_t{kSize}, memory + from * std::int64_t{kSize}, bytes);
  });
}

// Calls body with the size of the type, known when it is compiled.
template <typename Body>
void with_size(DType dtype, const Body& body) {
  switch (size_of(dtype).value) {
    case 2:
      return body(std::integral_constant<std::size_t, 2>{});
    case 4:
      return body(std::integral_constant<std::size_t, 4>{});
    case 8:
      return body(std::integral_constant<std::size_t, 8>{});
    default:
      ZPLAN_ASSERT(false);
  }
}

}  // namespace

void copy_from_block(const FiledTensor& tensor, const FileBlock& at, const std::byte* block,
                     const BlockRows& rows, std::byte* memory, std::int64_t stride) {
  with_size(tensor.dtype, [&](auto size) { read<size>(tensor, at, block, rows, memory, stride); });
}

void copy_to_block(const FiledTensor& tensor, const FileBlock& at, std::byte* block,
                   const BlockRows& rows, const std::byte* memory, std::int64_t stride) {
  with_size(tensor.dtype, [&](auto size) { write<size>(tensor, at, block, rows, memory, stride); });
}

}  // namespace zplan::exec
