// How the rows of the dispatch table read a call: scratch, tokens, and types known at run time.
// Internal to exec/cpu.
#pragma once

#include <algorithm>

#include "exec/backend.h"
#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/half.h"
#include "planner/core/error.h"

namespace zplan::exec::cpu {

using Call = KernelCall;

inline Scratch scratch(const Operand& operand) {
  return {operand.data, static_cast<std::size_t>(operand.view->bytes().value)};
}

// Rows of tokens are s + 1 long: inputs at [i, 0..s), targets at [i, 1..s].
struct TokenRows {
  std::int64_t batch, sequence;
  const std::int32_t* data;
  const std::int32_t* inputs(std::int64_t i) const { return data + i * (sequence + 1); }
  const std::int32_t* targets(std::int64_t i) const { return inputs(i) + 1; }
};

inline TokenRows token_rows(const Operand& tokens) {
  return {tokens.shape()[0], tokens.shape()[1] - 1, tokens.as<std::int32_t>()};
}

// Calls body(G*) with a gradient of a kernel on T: of type T or, of 16-bit T, float.
template <typename T, typename Body>
void with_gradient(const Operand& gradient, const Body& body) {
  if constexpr (kIsHalf<T>) {
    if (gradient.view->dtype == DType::kF32) return body(gradient.as<float>());
  }
  body(gradient.as<T>());
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
