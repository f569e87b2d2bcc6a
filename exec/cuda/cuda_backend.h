// The CUDA backend of one rank: kernels and copies of the launched lanes go to the streams of the
// rank's queues, those of the host's lanes to a CPU backend of the same compute type. Types,
// scratch and the plans of matrix products and attention are settled at construction.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "exec/backend.h"
#include "exec/cpu/cpu_backend.h"
#include "exec/cuda/attention.h"
#include "exec/cuda/cuda_queues.h"
#include "exec/cuda/dispatch.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/lane_context.h"

namespace zplan::exec::cuda {

class CudaBackend : public Backend {
 public:
  // On the current device. `threads`: of OpenMP, in kernels of the host's lanes. Throws Error
  // naming the operation when a kernel is not offered for the set's type, an operand has the wrong
  // type, or no algorithm fits the scratch.
  CudaBackend(const Program& program, const KernelSet& set, int threads,
              std::unique_ptr<CudaQueues> queues, const KnownChoices& known);
  ~CudaBackend() override;

  void prepare_thread() override;
  void run_kernel(const KernelCall& call) override;
  void copy(Lane lane, const Operand& from, const Operand& to) override;
  Queues* queues() override { return queues_.get(); }
  // Of the products and the attention of the program.
  std::vector<KernelChoice> choices() const override;

 private:
  void prepare(const Program& program, const KernelCall& call, DType compute);
  void make_lanes(const std::array<bool, kLaneCount>& has_kernels);

  int device_ = 0;
  std::span<const DispatchEntry> table_;
  std::unique_ptr<CudaQueues> queues_;
  cpu::CpuBackend host_;
  GemmPlans gemm_;
  AttentionPlans attention_;
  std::array<LaneContext, kLaneCount> lanes_;
  struct FreeDevice {
    void operator()(double* memory) const noexcept;
  };
  std::unique_ptr<double, FreeDevice> partials_;  // [launched lanes with kernels, kPartials]
};

}  // namespace zplan::exec::cuda
