// How rows of the dispatch table are written, and how they read scratch. Internal to exec/cpu.
#pragma once

#include "exec/cpu/dispatch.h"
#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/half.h"
#include "exec/kernels/operands.h"

namespace zplan::exec::cpu {

using Call = KernelCall;
using StoredHalves = Halves<Bf16, Fp16>;

// Of a kernel that prepares nothing: body(what `read` finds in the call). Both are stateless.
template <typename Read, typename Body>
constexpr DispatchEntry row(KernelId kernel, Read, Body) {
  return {kernel, nullptr, [](const Call& c, GemmCache&) { Read{}(c, Body{}); }};
}

inline Scratch scratch(const Operand& operand) {
  return {operand.data, static_cast<std::size_t>(operand.view->bytes().value)};
}

template <typename T>
Bytes prepare_gemm(GemmCache& gemm, const GemmShape& shape) {
  gemm.prepare<T>(shape);
  return gemm.scratch_bytes<T>(shape);
}

}  // namespace zplan::exec::cpu
