#include "exec/kernel_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "planner/core/error.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan::exec {

bool fits_letter(char letter, DType type, DType compute) {
  const bool doubles = compute == DType::kF64;
  switch (letter) {
    case 'c':
      return type == compute;
    case 't':
      return type == (doubles ? DType::kF64 : DType::kF32);
    case 'g':
      return type == compute || (!doubles && type == DType::kF32);
    case 'd':
      return type == DType::kF64;
    case 'i':
      return type == DType::kI32;
    case 'k':
      return type == DType::kU8;
    case '*':
      return true;
    default:
      return type != DType::kI32 && type != DType::kU8 && doubles == (type == DType::kF64);
  }
}

void check_types(const KernelCall& call, DType compute) {
  const std::string_view letters = kernel_def(call.node->kernel).types;
  for (std::size_t i = 0; i < std::min(letters.size(), call.operands.size()); ++i) {
    const DType type = call[i].view->dtype;
    if (call[i].view->access == Access::kScratch) continue;
    if (fits_letter(letters[i], type, compute)) continue;
    throw_bad_input(fmt::format("{}: {} of a {} kernel set does not take operand {} as {}",
                                name(call.node->role), name(call.node->kernel), name(compute), i,
                                name(type)));
  }
}

void check_scratch(const KernelCall& call, Bytes needed) {
  const View& scratch = *call.operands.back().view;
  const Bytes available = scratch.access == Access::kScratch ? scratch.bytes() : Bytes{0};
  if (needed <= available) return;
  throw_bad_input(fmt::format("{}: {} needs {} bytes of scratch, the program gives it {}",
                              name(call.node->role), name(call.node->kernel), needed.value,
                              available.value));
}

void for_each_kernel(const Program& program, const std::function<void(const KernelCall&)>& body) {
  std::vector<Operand> operands;
  for (const Node& node : program.nodes) {
    if (node.kind != OpKind::kKernel) continue;
    operands.clear();
    for (const View& view : program.operands(node)) operands.push_back({&view, nullptr});
    KernelCall call;
    call.node = &node;
    call.operands = operands;
    call.attributes = resolve(program.attributes_of(node), {});
    body(call);
  }
}

}  // namespace zplan::exec
