// How the sums over rows of column_sums.cuh are cut into pieces and blocks.
#pragma once

#include <algorithm>

#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/column_sums.h"
#include "exec/cuda/kernels/launch.cuh"

namespace zplan::exec::cuda {

// [assumed] enough blocks to fill the largest devices, each with some rows to its name.
inline constexpr std::int64_t kWantedBlocks = 1024, kLeastRowsOfPiece = 8 * kTileWarps;
// More pieces than this take longer to add up than they save.
inline constexpr std::int64_t kMostPieces = 128;

inline Bytes piece_bytes(std::int64_t terms, std::int64_t columns) {
  return Bytes{terms * columns * static_cast<std::int64_t>(sizeof(float))};
}

inline Pieces pieces_of(std::int64_t rows, std::int64_t columns, int width, std::int64_t terms,
                        Bytes scratch) {
  const std::int64_t room = scratch.value / piece_bytes(terms, columns).value;
  ZPLAN_ASSERT(room >= 1);
  const std::int64_t tiles = ceil_div(columns, static_cast<std::int64_t>(kWarp) * width);
  const std::int64_t wanted =
      std::min(ceil_div(kWantedBlocks, tiles), ceil_div(rows, kLeastRowsOfPiece));
  const std::int64_t count = std::clamp<std::int64_t>(wanted, 1, std::min(room, kMostPieces));
  const std::int64_t piece = std::max<std::int64_t>(ceil_div(rows, count), 1);
  return {piece, std::max<std::int64_t>(ceil_div(rows, piece), 1)};
}

inline Grid grid_of_tiles(std::int64_t columns, int width, std::int64_t pieces) {
  const std::int64_t tiles = ceil_div(columns, static_cast<std::int64_t>(kWarp) * width);
  return {std::clamp<std::int64_t>(tiles * pieces, 1, kMostBlocks), kTileWarps * kWarp};
}

template <typename G>
void add_pieces(cudaStream_t stream, G* out0, G* out1, const float* sums, std::int64_t pieces,
                std::int64_t columns, bool accumulate) {
  const std::int64_t all = (out1 == nullptr ? 1 : 2) * columns;
  launch(stream, "add_pieces", grid_of_tiles(all, 1, 1), add_pieces_kernel<G>, out0, out1, sums,
         pieces, columns, accumulate);
}

// [assumed] of the blocks of which each leaves one piece of sums: what fills the largest devices.
inline constexpr std::int64_t kMostSummingThreads = 264 * kMostRowThreads;
// [assumed] pieces of such sums that one launch adds up. Of more a block adds up so many, and what
// it leaves is added up at last.
inline constexpr std::int64_t kMostPiecesAtOnce = 512, kPiecesOfBlock = 64;

// How many pieces of `columns` sums the scratch has room for, with what adds them up.
inline std::int64_t room_for_pieces(Bytes scratch, std::int64_t columns) {
  const std::int64_t room = scratch.value / piece_bytes(1, columns).value;
  return room <= kMostPiecesAtOnce ? room : room - ceil_div(room, kPiecesOfBlock);
}

// out0 and out1 [columns] (+)= sums [pieces, 1 or 2, columns], behind which there is room for what
// adds them up.
template <typename G>
void add_many_pieces(cudaStream_t stream, const char* name, G* out0, G* out1, float* sums,
                     std::int64_t pieces, std::int64_t columns, bool accumulate) {
  const std::int64_t all = (out1 == nullptr ? 1 : 2) * columns;
  const float* last = sums;
  if (pieces > kMostPiecesAtOnce) {
    float* const folded = sums + pieces * all;
    const Pieces blocks{kPiecesOfBlock, ceil_div(pieces, kPiecesOfBlock)};
    with_width<kWidthOf<float>>(is_aligned({sums}) && all % kWidthOf<float> == 0, [&](auto width) {
      constexpr int w = decltype(width)::value;
      launch(stream, name, grid_of_tiles(all, w, blocks.count), column_pieces_kernel<float, w>,
             folded, sums, pieces, all, blocks);
    });
    last = folded;
    pieces = blocks.count;
  }
  add_pieces<G>(stream, out0, out1, last, pieces, columns, accumulate);
}

}  // namespace zplan::exec::cuda
