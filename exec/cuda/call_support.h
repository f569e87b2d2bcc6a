// How the rows of the dispatch table read a call: scratch, tokens, and types known at run time.
// Internal to exec/cuda.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "exec/backend.h"
#include "exec/cuda/kernels/column_sums.h"
#include "exec/cuda/lane_context.h"
#include "planner/core/error.h"

namespace zplan::exec::cuda {

inline DeviceScratch device_scratch(const Operand& operand) {
  return {operand.as<float>(), operand.view->bytes()};
}

// Rows of tokens are s + 1 long: inputs at [i, 0..s), targets at [i, 1..s].
struct TokenRows {
  std::int64_t batch, sequence;
  const std::int32_t* data;
};

inline TokenRows token_rows(const Operand& tokens) {
  return {tokens.shape()[0], tokens.shape()[1] - 1, tokens.as<std::int32_t>()};
}

// Calls body(G*) with a gradient of a kernel on T: of type T or float.
template <typename T, typename Body>
void with_gradient(const Operand& gradient, const Body& body) {
  if constexpr (!std::is_same_v<T, float>) {
    if (gradient.view->dtype == DType::kF32) return body(gradient.as<float>());
  }
  body(gradient.as<T>());
}

// Calls body(S*) with a state.
template <typename Body>
void with_state(const Operand& state, const Body& body) {
  switch (state.view->dtype) {
    case DType::kF32:
      return body(state.as<float>());
    case DType::kBf16:
      return body(state.as<__nv_bfloat16>());
    case DType::kF16:
      return body(state.as<__half>());
    case DType::kF64:
    case DType::kI32:
    case DType::kU8:
      break;
  }
  ZPLAN_ASSERT(false);
}

}  // namespace zplan::exec::cuda
