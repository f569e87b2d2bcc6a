#include "exec/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_queues.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/image_probe.h"
#include "exec/memory/numa.h"
#include "exec/memory/poison.h"
#include "planner/core/error.h"
#ifdef ZPLAN_HAVE_NCCL
#include "exec/cuda/nccl_comm.h"
#endif

namespace zplan::exec::cuda {
namespace {

// Queues for kernels, and for copies (stream_budget.h).
constexpr const char* kConnections[] = {"CUDA_DEVICE_MAX_CONNECTIONS",
                                        "CUDA_DEVICE_MAX_COPY_CONNECTIONS"};

// Read by the driver when the first context is made. A kernel that is loaded when it is first
// launched may wait for all streams, hence for one that waits for a flag (stream_budget.h). NCCL
// reads the last two: communicators of one device run in the order of their launches, where they
// could otherwise each hold what the other needs [NCCL 2.26], and connect at the start
// (nccl_comm.h).
void set_environment() {
  for (const char* connections : kConnections)
    setenv(connections, std::to_string(kMostHardwareQueues).c_str(), 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
}

int hardware_queues() {
  int least = kMostHardwareQueues;
  for (const char* connections : kConnections)
    least = std::min(least, std::max(std::atoi(std::getenv(connections)), 1));
  return least;
}

[[noreturn]] void fail(const std::string& message) { throw Error(ExitCode::kDevice, message); }

// 13000 is "13.0"
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Anything but success leaves the count untouched and means that there is no device to use.
int device_count() {
  int driver = 0, toolkit = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&toolkit);
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  if (driver == 0) fail("there is no NVIDIA driver on this machine: CUDA kernels cannot run here");
  if (error == cudaErrorInsufficientDriver) {
    fail(
        fmt::format("the NVIDIA driver is for CUDA {}, this build needs CUDA {}: take a newer "
                    "driver, or build with an older toolkit",
                    version_text(driver), version_text(toolkit)));
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    fail("the NVIDIA driver shows no CUDA device (is CUDA_VISIBLE_DEVICES as it should be?)");
  }
  fail(fmt::format("CUDA does not start: {} ({}); driver for CUDA {}, toolkit {}",
                   cudaGetErrorString(error), cudaGetErrorName(error), version_text(driver),
                   version_text(toolkit)));
}

// Nothing where the device does not say who it is.
std::optional<int> numa_node_of_device(int index, const std::string& system) {
  std::array<char, 32> address{};  // "0000:3B:00.0"
  if (cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), index) == cudaSuccess)
    return numa_node_of(address.data(), system);
  cudaGetLastError();
  return std::nullopt;
}

double gib(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

std::size_t count_of(Bytes bytes) { return static_cast<std::size_t>(bytes.value); }

}  // namespace

// Where each process is shown a device of its own, that is the one, whatever its local rank.
CudaDevice::CudaDevice(const CudaDeviceOptions& options) {
  set_environment();
  const int count = device_count();
  index_ = count == 1 ? 0 : options.local_rank;
  if (index_ >= count) {
    fail(fmt::format("local rank {} needs {} CUDA devices, {} are visible", index_, index_ + 1,
                     count));
  }
  use();
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
  name_ = fmt::format("CUDA device {} ({})", index_, properties.name);
  capability_ = 10 * properties.major + properties.minor;
  numa_node_ = numa_node_of_device(index_, options.system);
  driver_ = find_driver_api();
  demand(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "unified addressing");
  demand(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, "64-bit stream memory operations");
  streams_ = std::make_shared<StreamBudget>(index_, hardware_queues());
}

void CudaDevice::use() const { cuda::check(cudaSetDevice(index_), "cudaSetDevice"); }

void CudaDevice::demand(CUdevice_attribute attribute, const char* what) const {
  int value = 0;
  check_driver(driver_.device_attribute(&value, attribute, index_), "cuDeviceGetAttribute");
  if (value == 0) fail(fmt::format("{} lacks {}, which the executor needs", name_, what));
}

void CudaDevice::check(const KernelSet& set) const {
  if (set.runs_on != RunsOn::kCuda)
    throw_bad_input(fmt::format("kernel set \"{}\" does not run on a CUDA device", set.id));
  if (capability_ < set.capability) {
    throw_bad_input(fmt::format("kernel set \"{}\" needs compute capability {}.{}, {} has {}.{}",
                                set.id, set.capability / 10, set.capability % 10, name_,
                                capability_ / 10, capability_ % 10));
  }
  use();
  if (!has_kernels_for_device()) {
    throw_bad_input(
        fmt::format("this build has no kernels for compute capability {}.{} of {}: "
                    "build with -DZPLAN_CUDA_ARCHITECTURES={}",
                    capability_ / 10, capability_ % 10, name_, capability_));
  }
}

Slab CudaDevice::make_slab(Tier tier, Bytes size) {
  ZPLAN_ASSERT(tier != Tier::kNvme);
  if (size.value == 0) return {};
  use();
  return tier == Tier::kGpu ? make_device_slab(round_up(size, kBufferAlignment))
                            : make_pinned_slab(round_up(size, kIoAlignment));
}

Slab CudaDevice::make_device_slab(Bytes size) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, count_of(size));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // told here
    std::size_t available = 0, total = 0;
    cuda::check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    fail(fmt::format("{} cannot give a slab of {:.2f} GiB: {:.2f} of its {:.2f} GiB are free",
                     name_, gib(count_of(size)), gib(available), gib(total)));
  }
  cuda::check(error, "cudaMalloc");
  Slab slab(static_cast<std::byte*>(memory), size,
            [](std::byte* data, Bytes) noexcept { cudaFree(data); });
  check_driver(
      driver_.fill_halves(driver_address(memory), kPoisonHalf, count_of(size) / sizeof kPoisonHalf),
      "cuMemsetD16");
  cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return slab;
}

Slab CudaDevice::make_pinned_slab(Bytes size) {
  void* memory = nullptr;
  const PreferredNode own_socket(numa_node_);
  const cudaError_t error =
      cudaHostAlloc(&memory, count_of(size), cudaHostAllocPortable | cudaHostAllocMapped);
  if (error != cudaSuccess) {
    cudaGetLastError();
    fail(fmt::format("cannot get {:.2f} GiB of pinned host memory for {}: {}", gib(count_of(size)),
                     name_, cudaGetErrorString(error)));
  }
  auto* const data = static_cast<std::byte*>(memory);
  Slab slab(data, size, [](std::byte* begin, Bytes) noexcept { cudaFreeHost(begin); });
  poison_slab(data, size);
  return slab;
}

void CudaDevice::download(std::byte* to, const std::byte* from, Bytes bytes) {
  use();
  cuda::check(cudaMemcpy(to, from, count_of(bytes), cudaMemcpyDefault), "cudaMemcpy");
}

// The copy from memory that is not pinned may return when it has read all; streams do not wait for
// what is left.
void CudaDevice::upload(std::byte* to, const std::byte* from, Bytes bytes) {
  use();
  cuda::check(cudaMemcpy(to, from, count_of(bytes), cudaMemcpyDefault), "cudaMemcpy");
  cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

std::unique_ptr<Backend> CudaDevice::make_backend(const Job& job, std::int32_t rank, int threads,
                                                  const KnownChoices& known) {
  use();
  const Program& program = job.class_of(rank).program;
  auto queues = std::make_unique<CudaQueues>(index_, streams_, launched_lanes(program));
  return std::make_unique<CudaBackend>(program, find_kernel_set(job.kernel_set), threads,
                                       std::move(queues), known);
}

#ifdef ZPLAN_HAVE_NCCL
bool CudaDevice::has_comm() const { return true; }

std::unique_ptr<QueuedComm> CudaDevice::make_comm(Queues& queues, const ProcessGroup& group) {
  return std::make_unique<NcclComm>(dynamic_cast<CudaQueues&>(queues), group);
}
#else
bool CudaDevice::has_comm() const { return false; }

std::unique_ptr<QueuedComm> CudaDevice::make_comm(Queues&, const ProcessGroup&) {
  throw Error(ExitCode::kDevice,
              "this CUDA plug-in was built without NCCL, which ranks in several processes need");
}
#endif

}  // namespace zplan::exec::cuda
