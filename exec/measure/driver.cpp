#include "exec/measure/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <fstream>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr int kNotFound = 500;                               // CUDA_ERROR_NOT_FOUND
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;  // CUdevice_attribute

// The first word that looks like "580.159.04".
std::string module_version() {
  std::ifstream in("/proc/driver/nvidia/version");
  for (std::string word; in >> word;)
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return "";
}

}  // namespace

template <typename... Arguments>
int Driver::call(const char* symbol, Arguments... arguments) const {
  using Function = int(Arguments...);
  const auto function = reinterpret_cast<Function*>(dlsym(library_.get(), symbol));
  return function == nullptr ? kNotFound : function(arguments...);
}

std::optional<Driver> Driver::open(std::string& why_not) {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    why_not = "no NVIDIA driver (libcuda.so.1)";
    return std::nullopt;
  }
  driver.library_ = {library, dlclose};
  int count = 0, device = 0, major = 0, minor = 0, version = 0;
  const int result = driver.call<unsigned>("cuInit", 0U);
  if (result != 0 || driver.call<int*>("cuDeviceGetCount", &count) != 0 || count == 0) {
    why_not = fmt::format("no CUDA device (cuInit says {})", result);
    return std::nullopt;
  }
  std::array<char, 256> name{};
  driver.call<int*, int>("cuDeviceGet", &device, 0);
  driver.call<char*, int, int>("cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1,
                               device);
  driver.call<int*, int, int>("cuDeviceGetAttribute", &major, kCapabilityMajor, device);
  driver.call<int*, int, int>("cuDeviceGetAttribute", &minor, kCapabilityMinor, device);
  driver.call<int*>("cuDriverGetVersion", &version);
  void* context = nullptr;
  if (driver.call<void**, int>("cuDevicePrimaryCtxRetain", &context, device) != 0 ||
      driver.call<void*>("cuCtxSetCurrent", context) != 0) {
    why_not = "the device has no room for a context";
    return std::nullopt;
  }
  driver.context_ = {context, [library_kept = driver.library_, device](void*) {
                       using Release = int(int);
                       const auto release = reinterpret_cast<Release*>(
                           dlsym(library_kept.get(), "cuDevicePrimaryCtxRelease_v2"));
                       if (release != nullptr) release(device);
                     }};
  driver.name_ = name.data();
  driver.devices_ = count;
  driver.capability_ = 10 * major + minor;
  driver.version_ =
      fmt::format("{} (CUDA {}.{})", module_version(), version / 1000, version % 1000 / 10);
  return driver;
}

DeviceMemory Driver::memory() const {
  std::size_t free = 0, total = 0;
  if (call<std::size_t*, std::size_t*>("cuMemGetInfo_v2", &free, &total) != 0)
    throw Error(ExitCode::kDevice, "the driver does not say how much memory is free");
  return {Bytes{static_cast<std::int64_t>(free)}, Bytes{static_cast<std::int64_t>(total)}};
}

}  // namespace zplan::exec
