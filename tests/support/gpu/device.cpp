// The device itself, errors, and the launch of kernels.
#include <fmt/format.h>

#include <algorithm>

#include "tests/support/gpu/machine.h"

using namespace zplan::stand_in;

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&](Machine& m, Lock&) {
    *version = m.options.driver_version == 0 ? CUDART_VERSION : m.options.driver_version;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](Machine& m, Lock&) {
    const int driver = m.options.driver_version;
    if (driver != 0 && driver / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
    if (m.options.devices == 0) return cudaErrorNoDevice;
    *count = m.options.devices;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call(
      "cudaSetDevice",
      [&](Machine& m, Lock&) {
        if (device < 0 || device >= m.options.devices) return cudaErrorInvalidDevice;
        thread_device() = device;
        return cudaSuccess;
      },
      true);
}

cudaError_t cudaGetDevice(int* device) {
  *device = thread_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](Machine& m, Lock&) {
    if (device < 0 || device >= m.options.devices) return cudaErrorInvalidDevice;
    *properties = {};
    fmt::format_to_n(properties->name, sizeof properties->name - 1, "stand-in");
    properties->major = m.options.capability / 10;
    properties->minor = m.options.capability % 10;
    properties->totalGlobalMem = m.options.memory;
    return cudaSuccess;
  });
}

// No two are the same, in capitals as the driver writes them.
cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int device) {
  return call("cudaDeviceGetPCIBusId", [&](Machine& m, Lock&) {
    if (device < 0 || device >= m.options.devices) return cudaErrorInvalidDevice;
    const std::string text = fmt::format("0000:{:02X}:00.0", 0xa0 + device);
    if (size <= static_cast<int>(text.size())) return cudaErrorInvalidValue;
    *std::copy(text.begin(), text.end(), address) = '\0';
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = thread_error();
  thread_error() = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t) { return "an error of the stand-in"; }

const char* cudaGetErrorString(cudaError_t error) {
  static thread_local std::string text;
  text = fmt::format("error {} of the stand-in", static_cast<int>(error));
  return text.c_str();
}

namespace zplan::stand_in {

namespace {

std::vector<Access> with_declared(const std::vector<Access>& accesses) {
  const std::vector<Access>& declared = declared_accesses();
  std::vector<Access> all = declared;
  for (const Access& access : accesses) {
    const auto is_within = [&](const Access& known) { return known.overlaps(access); };
    if (std::none_of(declared.begin(), declared.end(), is_within)) all.push_back(access);
  }
  return all;
}

}  // namespace

cudaError_t queue_kernel(cudaStream_t handle, const char* name, std::int64_t blocks, int threads,
                         std::function<void()> kernel, const std::vector<Access>& accesses) {
  const cudaError_t queued = call("kernel", [&](Machine& m, Lock&) {
    constexpr std::int64_t kMostBlocks = 2147483647;
    constexpr int kMostThreads = 1024;
    Stream* stream = m.stream_of(handle, name);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (blocks < 1 || blocks > kMostBlocks || threads < 1 || threads > kMostThreads) {
      m.find(fmt::format("{}: a grid of {} blocks of {} threads", name, blocks, threads));
      return cudaErrorInvalidConfiguration;
    }
    if (stream->device != &m.current_device()) {
      m.find(fmt::format("{}: {} is not of the thread's device", name, stream->agent.name));
      return cudaErrorInvalidResourceHandle;
    }
    return m.submit(*stream, {name, with_declared(accesses),
                              [run = std::move(kernel)](Machine&, Device&, Agent&) { run(); }});
  });
  const cudaError_t before = cudaGetLastError();
  return queued != cudaSuccess ? queued : before;
}

}  // namespace zplan::stand_in
