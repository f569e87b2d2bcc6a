// The CPU as a device: both tiers are host memory, every lane is a thread.
#pragma once

#include <memory>

#include "exec/device.h"

namespace zplan::exec::cpu {

class CpuDevice : public Device {
 public:
  void check(const KernelSet& set) const override;
  Slab make_slab(Tier tier, Bytes size) override;
  bool host_reaches(Tier tier) const override;
  void download(std::byte* to, const std::byte* from, Bytes bytes) override;
  void upload(std::byte* to, const std::byte* from, Bytes bytes) override;
  std::unique_ptr<Backend> make_backend(const Job& job, std::int32_t rank, int threads,
                                        const KnownChoices& known) override;
  std::unique_ptr<QueuedComm> make_comm(Queues& queues, const ProcessGroup& group) override;
};

}  // namespace zplan::exec::cpu
