// The types that optimizer states have on the device.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "planner/core/error.h"
#include "planner/program/job/ops.h"

namespace zplan::exec::cuda {

// Calls body(T{}) with the type of states.
template <typename Body>
void with_state_type(DType type, const Body& body) {
  switch (type) {
    case DType::kF32:
      return body(float{});
    case DType::kBf16:
      return body(__nv_bfloat16{});
    case DType::kF16:
      return body(__half{});
    case DType::kF64:
    case DType::kI32:
    case DType::kU8:
      break;
  }
  ZPLAN_ASSERT(false);
}

}  // namespace zplan::exec::cuda
