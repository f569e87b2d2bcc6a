// Which CPU function a row of the kernel table runs, for float64, float32 and, computing in
// float32, for bf16 and fp16. The rows stand in rows_*.h by what they are about; how they read
// their calls stands in exec/kernels. A CPU kernel set is covered when the table of its compute
// type has an entry for every KernelId that some CPU set declares: sets differ in which of them
// lower uses (those without fused attention the products and the softmax, the others the fused
// kernels), and every compute type offers both.
#pragma once

#include <span>

#include "exec/backend.h"
#include "exec/cpu/kernels/gemm.h"

namespace zplan::exec::cpu {

struct DispatchEntry {
  KernelId kernel;
  // Builds what the call needs ahead of the first step and says how much scratch it needs; the
  // addresses of its operands are null. Null: neither.
  Bytes (*prepare)(const KernelCall& call, GemmCache& gemm);
  void (*run)(const KernelCall& call, GemmCache& gemm);
};

// For activations and parameters of this type, by KernelId; `run` is null where there is none.
// Empty when the type is not offered.
std::span<const DispatchEntry> dispatch_table(DType compute);

}  // namespace zplan::exec::cpu
