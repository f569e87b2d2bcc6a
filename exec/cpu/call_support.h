// How the rows of the dispatch table read a call: scratch, and types known at run time.
// Internal to exec/cpu.
#pragma once

#include <algorithm>

#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/half.h"
#include "exec/kernels/operands.h"
#include "planner/core/error.h"

namespace zplan::exec::cpu {

using Call = KernelCall;

inline Scratch scratch(const Operand& operand) {
  return {operand.data, static_cast<std::size_t>(operand.view->bytes().value)};
}

// Calls body(S*) with a state of a kernel set that computes in C: double, or any narrower type.
template <typename C, typename Body>
void with_state(const Operand& state, const Body& body) {
  if constexpr (std::is_same_v<C, double>) {
    body(state.as<double>());
  } else if (state.view->dtype == DType::kF32) {
    body(state.as<float>());
  } else if (state.view->dtype == DType::kBf16) {
    body(state.as<Bf16>());
  } else {
    ZPLAN_ASSERT(state.view->dtype == DType::kF16);
    body(state.as<Fp16>());
  }
}

template <typename T>
Bytes prepare_gemm(GemmCache& gemm, const GemmShape& shape) {
  gemm.prepare<T>(shape);
  return gemm.scratch_bytes<T>(shape);
}

}  // namespace zplan::exec::cpu
