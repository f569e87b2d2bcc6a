#include "exec/memory/tensor_part.h"

#include <algorithm>

#include "planner/core/error.h"

namespace zplan::exec {

TensorPart::TensorPart(const Tensor& tensor, std::int64_t piece, std::int64_t pieces)
    : tensor_(&tensor),
      piece_(piece % (pieces / tensor.blocks)),
      pieces_(pieces / tensor.blocks),
      rows_(1),
      columns_(1) {
  const Shape& shape = tensor.shape;
  switch (tensor.split.kind) {
    case Split::Kind::kNone:
      columns_ = shape.elements() / tensor.blocks;
      first_row_ = piece / pieces_;
      return;
    case Split::Kind::kRows:
      rows_ = tensor.piece_rows > 0 ? tensor.piece_rows : shape[0] / pieces;
      columns_ = shape.elements() / shape[0];
      return;
    case Split::Kind::kColumns:
      rows_ = shape.elements() / shape[shape.rank - 1] / tensor.blocks;
      columns_ = shape[shape.rank - 1] / pieces_;
      first_row_ = piece / pieces_ * rows_;
      return;
  }
}

TensorPart::Run TensorPart::run_from(std::int64_t local) const {
  const std::int64_t left = elements() - local;
  switch (tensor_->split.kind) {
    case Split::Kind::kNone:
      return {first_row_ * columns_ + local, left};
    case Split::Kind::kRows: {
      const std::int64_t global = piece_ * elements() + local, end = tensor_->shape.elements();
      return global < end ? Run{global, std::min(left, end - global)} : Run{kPadding, left};
    }
    case Split::Kind::kColumns:
      return run_in_row(first_row_ + local / columns_, local % columns_);
  }
  return {};
}

// The row of a piece holds its part of each segment side by side.
TensorPart::Run TensorPart::run_in_row(std::int64_t row, std::int64_t column) const {
  std::int64_t global = row * columns_ * pieces_;
  for (std::int64_t width : tensor_->split.segments) {
    const std::int64_t own = width / pieces_;
    if (column < own) return {global + piece_ * own + column, own - column};
    column -= own;
    global += width;
  }
  ZPLAN_ASSERT(false);  // the segments are as wide as the tensor
  return {};
}

}  // namespace zplan::exec
