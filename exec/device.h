// What a run needs of a device: memory for the slabs of a rank, and one backend per rank. The two
// devices are cpu/cpu_device.h and cuda/cuda_device.h; nothing else in exec/ knows which one runs.
// A device outlives the memory it gave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/backend.h"
#include "exec/slab.h"
#include "planner/core/units.h"
#include "planner/program/job.h"
#include "planner/program/kernel_set.h"

namespace zplan::exec {

class Device {
 public:
  virtual ~Device() = default;

  // Throws Error(kBadInput) when the set's kernels cannot run here, saying why.
  virtual void check(const KernelSet& set) const = 0;
  // Memory of a tier, kGpu or kCpu, filled with poison where that is cheap. Throws Error(kDevice)
  // when it cannot be had.
  virtual Slab make_slab(Tier tier, Bytes size) = 0;
  // Whether the CPU may load and store there.
  virtual bool host_reaches(Tier tier) const = 0;
  // Between memory that the CPU does not reach and memory that it does. Not during a step.
  virtual void download(std::byte* to, const std::byte* from, Bytes bytes) = 0;
  virtual void upload(std::byte* to, const std::byte* from, Bytes bytes) = 0;
  // `threads`: of OpenMP, inside kernels on the CPU.
  virtual std::unique_ptr<Backend> make_backend(const Job& job, std::int32_t rank, int threads) = 0;
};

}  // namespace zplan::exec
