#include "exec/cpu/cpu_device.h"

#include <fmt/format.h>

#include <cstring>

#include "exec/cpu/cpu_backend.h"
#include "planner/core/error.h"

namespace zplan::exec::cpu {

void CpuDevice::check(const KernelSet& set) const {
  if (set.runs_on != RunsOn::kCpu)
    throw_bad_input(fmt::format("kernel set {} does not run on the CPU", set.id));
}

Slab CpuDevice::make_slab(Tier, Bytes size) { return Slab(size); }

bool CpuDevice::host_reaches(Tier tier) const { return tier != Tier::kNvme; }

void CpuDevice::download(std::byte* to, const std::byte* from, Bytes bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes.value));
}

void CpuDevice::upload(std::byte* to, const std::byte* from, Bytes bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes.value));
}

std::unique_ptr<Backend> CpuDevice::make_backend(const Job& job, std::int32_t rank, int threads,
                                                 const KnownChoices&) {
  return std::make_unique<CpuBackend>(job.class_of(rank).program,
                                      find_kernel_set(job.kernel_set).compute, threads);
}

// Its backends have no queues.
std::unique_ptr<QueuedComm> CpuDevice::make_comm(Queues&, const ProcessGroup&) {
  ZPLAN_ASSERT(false);
  return nullptr;
}

}  // namespace zplan::exec::cpu
