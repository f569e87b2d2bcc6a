// Which CUDA function a row of the kernel table runs: one entry per kernel that the kernel sets for
// CUDA declare and that works on the device, for float32, bf16 and fp16. The rows stand in rows_*.h
// by what they are about; how they read their calls stands in exec/kernels. Kernels of the host's
// lanes are the CPU backend's.
#pragma once

#include <span>

#include "exec/backend.h"
#include "exec/cuda/lane_context.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan::exec::cuda {

// What is built ahead of the first step, and for which program.
struct Preparation {
  const Program& program;
  GemmPlans& gemm;
  AttentionPlans& attention;
};

struct DispatchEntry {
  KernelId kernel;
  // Builds what the node needs and says how much scratch that is; operands have no addresses. Null:
  // neither.
  Bytes (*prepare)(const KernelCall& call, const Preparation& preparation);
  // Queues the work on the lane's stream; allocates nothing there.
  void (*run)(const KernelCall& call, LaneContext& lane);
};

// For activations and parameters of the set's type, and its products of layers, by KernelId; `run`
// is null where there is none. Empty when the type is not offered.
std::span<const DispatchEntry> dispatch_table(const KernelSet& set);

}  // namespace zplan::exec::cuda
