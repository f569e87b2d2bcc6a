// This says what becomes of operands of products whose kernel set casts them to codes of 8 or
// 4 bits (planner/program/kernels/kernel_set.h).
#pragma once

namespace zplan {

struct LowPrecision {
  // Inputs of products are cast where they are made: backward keeps their codes and not the values,
  // for the gradients of weights, and tensor parallel ranks gather codes, as Transformer Engine
  // does [TransformerEngine]. What the backward of attention reads stays as it is, and is cast
  // again. Otherwise each product casts its operands by itself.
  bool keeps_codes = false;
  friend bool operator==(const LowPrecision&, const LowPrecision&) = default;
};

}  // namespace zplan
