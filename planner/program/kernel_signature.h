// What the operands of a kernel must look like, as its row in the kernel table writes it:
//
//   shapes  "x[T,k] w[k,n] bias[n] y[T,n]"   one word per operand but scratch. Equal letters are
//           equal sizes; a size is a number, a letter, s+1 or b*s. [*] is any shape, the same one
//           wherever it stands.
//   types   "cccc"   one letter per operand but scratch: i is i32, d is f64, k is u8, any other a
//           floating-point type, the same one wherever it stands. By custom c is the compute type,
//           t the type of statistics, g of gradients.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/program/program.h"

namespace zplan {

// Nothing when the operands fit; else the operands as they are: "x:f32[4,8] w:f32[8,9] ..".
// Operands may be fewer than words: how many there must be is known elsewhere.
std::optional<std::string> operand_mismatch(std::string_view shapes, std::string_view types,
                                            std::span<const View> operands);

}  // namespace zplan
