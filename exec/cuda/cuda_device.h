// A CUDA device as the executor sees it (exec/device.h): slabs by cudaMalloc and in pinned host
// memory of its socket, a CudaBackend per rank. Several ranks of one process may share a device.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "exec/cuda/driver_api.h"
#include "exec/cuda/stream_budget.h"
#include "exec/cuda_plugin.h"

namespace zplan::exec::cuda {

class CudaDevice final : public Device {
 public:
  // Makes the device's context. Throws Error(kDevice) when there is no driver, it is older than
  // the toolkit, there is no such device, or the device cannot do what the executor needs.
  explicit CudaDevice(const CudaDeviceOptions& options);

  void check(const KernelSet& set) const override;
  Slab make_slab(Tier tier, Bytes size) override;
  // Order that flags alone establish is hidden from CUDA, which may serialize work against it (CUDA
  // driver API, stream memory operations). Graphs of ranks that met by flags stood still on an H100
  // each time they were tried, and on an H200 some of the time (reports/gpu_shared_device.md).
  bool ranks_may_share_graphs() const override { return false; }
  bool host_reaches(Tier tier) const override { return tier == Tier::kCpu; }
  void download(std::byte* to, const std::byte* from, Bytes bytes) override;
  void upload(std::byte* to, const std::byte* from, Bytes bytes) override;
  std::unique_ptr<Backend> make_backend(const Job& job, std::int32_t rank, int threads,
                                        const KnownChoices& known) override;
  // By NCCL; where the plug-in was built without, make_comm() throws Error(kDevice).
  bool has_comm() const override;
  std::unique_ptr<QueuedComm> make_comm(Queues& queues, const ProcessGroup& group) override;

 private:
  void use() const;
  void demand(CUdevice_attribute attribute, const char* what) const;
  Slab make_device_slab(Bytes size);
  Slab make_pinned_slab(Bytes size);

  int index_ = 0;
  std::optional<int> numa_node_;  // that it stands at (exec/memory/numa.h)
  std::string name_;              // "CUDA device 0 (NVIDIA H200)"
  int capability_ = 0;            // 10 x major + minor
  DriverApi driver_;
  std::shared_ptr<StreamBudget> streams_;
};

}  // namespace zplan::exec::cuda
