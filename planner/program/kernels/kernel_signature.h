// The operands of a kernel as its row (kernels/rows.h) writes them, one word each:
//
//   "x:rc[T,h] y:rc[T,h] bias:rc[h]? out:wc[T,h]=x=y"   name : access type [shape]
//
//   access  r read, w write, u update, a write or add to what is there, s scratch. Scratch comes
//           last and has neither type nor shape.
//   type    c the compute type, t that of statistics, g of gradients, q of gradients that an
//           optimizer reads, i i32, d f64, k u8, * any; any other letter is a state. i, d and k
//           are those types, all others floating-point ones; equal letters are equal types.
//   shape   equal letters are equal sizes; a size is a number, a letter, s+1 or b*s. [*] is any
//           shape, the same one wherever it stands.
//   ?       the operand and those after it may be absent, but scratch.
//   =x      it may lie where x lies: the kernel works in place, element by element.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/program/job/program.h"

namespace zplan {

struct OperandRow {
  std::string_view name;
  char access = 'r';
  char type = 0;                       // 0: scratch
  std::string_view shape;              // "[T,h]"; empty: scratch
  std::vector<std::string_view> dims;  // of the shape
  bool may_be_absent = false;
  std::vector<std::string_view> in_place_of;
};

std::vector<OperandRow> read_operands(std::string_view words);

// Nothing when the operands fit; else the operands as they are: "x:f32[4,8] w:f32[8,9] ..".
// Operands may be fewer than rows: how many there must be is known elsewhere. Scratch, where the
// kernel has it, is the last one.
std::optional<std::string> operand_mismatch(std::span<const OperandRow> rows,
                                            std::span<const View> operands);

}  // namespace zplan
