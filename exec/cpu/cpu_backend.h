// The CPU backend of one rank: looks kernels up in the dispatch table, prepares matrix products and
// checks scratch ahead of the first step, copies by memcpy.
#pragma once

#include <array>
#include <memory>

#include "exec/backend.h"
#include "exec/cpu/dispatch.h"

namespace zplan::exec::cpu {

class CpuBackend : public Backend {
 public:
  // Which kernel nodes it will run; null: all.
  using NodeFilter = bool (*)(const Node& node);

  // Throws Error naming the operation when a kernel is not offered for `compute`, an operand has
  // the wrong type, or a scratch operand is smaller than its kernel needs.
  CpuBackend(const Program& program, DType compute, int threads_per_rank,
             NodeFilter filter = nullptr);

  void prepare_thread() override;
  void run_kernel(const KernelCall& call) override;
  void copy(Lane lane, const Operand& from, const Operand& to) override;

 private:
  void prepare(const KernelCall& call, DType compute);

  std::span<const DispatchEntry> table_;
  int threads_;
  std::array<GemmCache, kLaneCount> gemm_;  // one per lane: each is used by one thread
};

}  // namespace zplan::exec::cpu
