// How rows of the dispatch table are written, and how they read scratch. Internal to exec/cuda.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "exec/cuda/dispatch.h"
#include "exec/cuda/kernels/column_sums.h"
#include "exec/kernels/operands.h"

namespace zplan::exec::cuda {

using StoredHalves = Halves<__nv_bfloat16, __half>;

// Of a kernel that prepares nothing: body(lane, what `read` finds in the call). Both are stateless.
template <typename Read, typename Body>
constexpr DispatchEntry row(KernelId kernel, Read, Body) {
  return {kernel, nullptr, [](const KernelCall& c, LaneContext& lane) {
            Read{}(c, [&](const auto&... x) { Body{}(lane, x...); });
          }};
}

// The same, with the least scratch that the kernel needs: scratch_bytes(what `read` finds).
template <typename Read, typename ScratchBytes, typename Body>
constexpr DispatchEntry row(KernelId kernel, Read read, ScratchBytes, Body body) {
  DispatchEntry entry = row(kernel, read, body);
  entry.prepare = [](const KernelCall& c, const Preparation&) {
    Bytes bytes{0};
    Read{}(c, [&](const auto&... x) { bytes = ScratchBytes{}(x...); });
    return bytes;
  };
  return entry;
}

inline DeviceScratch device_scratch(const Operand& operand) {
  return {operand.as<float>(), operand.view->bytes()};
}

}  // namespace zplan::exec::cuda
