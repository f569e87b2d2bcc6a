// What Adafactor's kernels (planner/program/kernels/rows.h) take, on every device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "exec/kernels/arguments.h"

namespace zplan::exec {

// The part of a tensor that a piece of its flat unit holds. The tensor is `matrices` of rows x
// columns elements, or a vector of `rows` and 0 columns.
struct FactoredPart {
  std::int64_t n = 0;                 // elements of the piece
  std::int64_t first = 0, begin = 0;  // flat elements that the piece and the tensor begin with
  std::int64_t matrices = 1, rows = 0, columns = 0;

  std::int64_t width() const { return columns > 0 ? columns : 1; }
  std::int64_t elements() const { return matrices * rows * width(); }
  // Elements [from, to) of the tensor are in the piece; from = to: none.
  std::int64_t from() const { return std::clamp<std::int64_t>(first - begin, 0, elements()); }
  std::int64_t to() const {
    return std::clamp<std::int64_t>(first + n - begin, from(), elements());
  }
  // Where the first of these is in the piece.
  std::int64_t at() const { return from() == to() ? 0 : from() + begin - first; }
};

struct FactoredMoments {
  FactoredPart part;
  Elements update;     // [n], of the part updated
  Elements moments;    // [matrices (rows + columns)], updated
  const double* sums;  // as many
  const double* scalars;
  const double* clip;
  double* squares;  // [1], overwritten
  PhiloxKey key;
  std::uint32_t place;  // which unit, layer and tensor
};

}  // namespace zplan::exec
