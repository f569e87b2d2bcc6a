#include "tests/crosscheck/cudnn/described_device.h"

#include <cuda_runtime.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int described_capability = 0;

}  // namespace

// What cuDNN's frontend asks the CUDA runtime while it plans.
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  constexpr int kTen = 10;
  *value = 0;
  if (attribute == cudaDevAttrComputeCapabilityMajor) *value = described_capability / kTen;
  if (attribute == cudaDevAttrComputeCapabilityMinor) *value = described_capability % kTen;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "there is no device"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

namespace zplan::testing_support {

// cuDNN wants every key, also those that no plan depends on.
std::shared_ptr<const cudnn_frontend::DeviceProperties> properties_of(
    const DescribedDevice& device) {
  described_capability = device.capability;
  const nlohmann::json about{{"maxGridSize", {2147483647, 65535, 65535}},
                             {"maxBlockSize", {1024, 1024, 64}},
                             {"regsPerBlock", 65536},
                             {"multiProcessorCount", device.processors},
                             {"smCountOrigin", 0},
                             {"warpSize", 32},
                             {"maxSharedMemoryPerBlock", 49152},
                             {"maxSharedMemoryPerBlockOptin", device.shared_memory},
                             {"oversizedSharedMemoryPerBlock", 0},
                             {"reservedSharedMemoryPerBlock", 1024},
                             {"maxRegistersPerSM", 65536},
                             {"maxCtasPerSM", 32},
                             {"maxThreadsPerBlock", 1024},
                             {"maxThreadsPerSM", 2048},
                             {"pciDeviceId", 0},
                             {"isTccDriver", 0},
                             {"supportCoopLaunch", 1},
                             {"totalGlobalMem", std::int64_t{80} << 30},
                             {"smClockRateKHz", 1410000},
                             {"memClockRateKHz", 1593000},
                             {"memoryBusWidth", 5120},
                             {"l2CacheSize", device.cache},
                             {"cudaDeviceId", 0},
                             {"deviceVer", device.capability * 10},
                             {"driverVer", 13000},
                             {"deviceName", "described"}};
  const std::string text = about.dump();
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  bytes.push_back(0);
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  if (auto done = properties->deserialize(bytes); done.is_bad())
    throw std::runtime_error(done.get_message());
  return properties;
}

}  // namespace zplan::testing_support
