// What a run needs of a device: memory for the slabs of a rank, and one backend per rank. The two
// devices are cpu/cpu_device.h and cuda/cuda_device.h; nothing else in exec/ knows which one runs.
// A device outlives the memory it gave.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/backend.h"
#include "exec/comm/queued_comm.h"
#include "exec/memory/slab.h"
#include "planner/core/units.h"
#include "planner/program/job/job.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan::exec {

// Ranks that are processes, one each.
struct ProcessGroup {
  const Job* job = nullptr;
  std::int32_t rank = 0;  // of this process
  // Called by all processes in the same order: the parts of all, by rank.
  std::function<std::vector<std::string>(const std::string& own)> exchange;
  std::chrono::seconds deadline{600};  // for partners, at the start and in each operation
  // Throws Error(kDevice) once another process is lost.
  std::function<void()> check = [] {};
};

class Device {
 public:
  virtual ~Device() = default;

  // Throws Error(kBadInput) when the set's kernels cannot run here, saying why.
  virtual void check(const KernelSet& set) const = 0;
  // Whether ranks that are threads of one process, on this device, may launch graphs.
  virtual bool ranks_may_share_graphs() const { return true; }
  // Memory of a tier, kGpu or kCpu, filled with poison where that is cheap. Throws Error(kDevice)
  // when it cannot be had.
  virtual Slab make_slab(Tier tier, Bytes size) = 0;
  // Whether the CPU may load and store there.
  virtual bool host_reaches(Tier tier) const = 0;
  // Between memory that the CPU does not reach and memory that it does. Not during a step.
  virtual void download(std::byte* to, const std::byte* from, Bytes bytes) = 0;
  virtual void upload(std::byte* to, const std::byte* from, Bytes bytes) = 0;
  // `threads`: of OpenMP, inside kernels on the CPU. Choices that are known are made again, where
  // the device still offers them.
  virtual std::unique_ptr<Backend> make_backend(const Job& job, std::int32_t rank, int threads,
                                                const KnownChoices& known) = 0;
  // Whether it has make_comm().
  virtual bool has_comm() const { return false; }
  // Between processes, for the queues of this one's rank; called by all of them at once. To be
  // destroyed after the queues: communicators wait for the graphs that use them to go.
  virtual std::unique_ptr<QueuedComm> make_comm(Queues& queues, const ProcessGroup& group) = 0;
};

}  // namespace zplan::exec
