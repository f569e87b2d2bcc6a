// Which elements of a global tensor a piece of a flat unit holds, as runs, and what two cuts of the
// same tensor have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/memory/tensor_part.h"

namespace zplan::exec {

// Elements [global, global + length) of the tensor are [local, local + length) of the piece.
struct PieceRun {
  std::int64_t global = 0, local = 0, length = 0;
};

// Of flat elements [first, first + elements) of piece `piece` of `pieces`; ascending in both.
inline std::vector<PieceRun> piece_runs(const Tensor& tensor, std::int64_t piece,
                                        std::int64_t pieces, std::int64_t first,
                                        std::int64_t elements) {
  const TensorPart part(tensor, piece, pieces);
  const std::int64_t from = std::max(first, tensor.offset);
  const std::int64_t to = std::min(first + elements, tensor.offset + part.elements());
  std::vector<PieceRun> runs;
  if (from >= to) return runs;
  part.for_runs(from - tensor.offset, to - tensor.offset,
                [&](std::int64_t local, const TensorPart::Run& run) {
                  runs.push_back({run.global, tensor.offset + local - first, run.length});
                });
  return runs;
}

// Calls use(from, to, length) for each run that two lists have in common: where it begins in the
// piece of either. Returns how many elements that were.
template <typename Use>
std::int64_t for_common_runs(std::span<const PieceRun> from, std::span<const PieceRun> to,
                             const Use& use) {
  std::int64_t common = 0;
  for (std::size_t i = 0, j = 0; i < from.size() && j < to.size();) {
    const PieceRun &a = from[i], &b = to[j];
    const std::int64_t begin = std::max(a.global, b.global);
    const std::int64_t end = std::min(a.global + a.length, b.global + b.length);
    if (begin < end) {
      use(a.local + begin - a.global, b.local + begin - b.global, end - begin);
      common += end - begin;
    }
    if (a.global + a.length <= b.global + b.length) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

inline std::int64_t count_elements(std::span<const PieceRun> runs) {
  std::int64_t count = 0;
  for (const PieceRun& run : runs) count += run.length;
  return count;
}

}  // namespace zplan::exec
