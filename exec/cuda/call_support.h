// How the rows of the dispatch table read a call: scratch, and types known at run time.
// Internal to exec/cuda.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "exec/cuda/kernels/column_sums.h"
#include "exec/cuda/lane_context.h"
#include "exec/kernels/operands.h"
#include "planner/core/error.h"

namespace zplan::exec::cuda {

inline DeviceScratch device_scratch(const Operand& operand) {
  return {operand.as<float>(), operand.view->bytes()};
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
