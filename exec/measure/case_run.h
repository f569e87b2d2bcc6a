// A call of one kernel on the backend of a device, with memory of its own around which nothing may
// change.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "exec/device.h"
#include "exec/host_kernels.h"
#include "exec/measure/kernel_case.h"

namespace zplan::exec {

class CaseRun {
 public:
  // `more_lanes`: that the backend has beside the kernel's. `threads`: inside it on a CPU.
  CaseRun(Device& device, const KernelSet& set, const Case& c, const Values& inputs,
          std::span<const Lane> more_lanes = {}, int threads = 1);
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;

  Backend& backend() { return *backend_; }
  void launch();                    // queues the kernel once more
  void read(std::size_t operands);  // reads the first ones on the CPU, scratch left out
  void queue_copy();                // of the first operand to the second, which is as large
  void finish();                    // waits for all that is queued
  // What the operands hold now. Throws Error(kCheckFailed) when a byte changed that the call does
  // not write.
  Values outputs();

 private:
  std::byte* address(std::size_t operand) const;

  Device* device_;
  DataSource data_{{1, 2, 3}, "none"};
  TrainConfig train_;
  RunServices services_{{&data_}, 1, train_, 0, 1};  // the seed of rounding draws
  std::vector<CaseOperand> operands_;
  std::vector<std::size_t> offsets_;
  Job job_;
  Slab slab_;
  std::vector<std::byte> image_;  // what was uploaded
  std::unique_ptr<Backend> backend_;
  std::vector<Operand> call_operands_;
  KernelCall call_;
};

}  // namespace zplan::exec
