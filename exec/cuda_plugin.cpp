#include "exec/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "exec/cuda/plugin.h"
#include "exec/interface_hash.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

namespace fs = std::filesystem;

// It stays loaded: what it made may live as long as the process.
void* plugin() {
  const fs::path path = cuda_plugin_path();
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw Error(ExitCode::kDevice,
                fmt::format("there is no CUDA plug-in {}: this zplan was built without CUDA",
                            path.string()));
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(ExitCode::kDevice, fmt::format("cannot load the CUDA plug-in: {}", dlerror()));
  return library;
}

template <typename Function>
Function* function(const char* name) {
  void* address = dlsym(plugin(), name);
  if (address == nullptr)
    throw Error(ExitCode::kDevice,
                fmt::format("the CUDA plug-in is not of this zplan: {}", dlerror()));
  return reinterpret_cast<Function*>(address);
}

// Objects of both cross the border between them, so both are compiled with the same headers.
void demand_same_sources() {
  const auto interface = function<decltype(zplan_cuda_interface)>("zplan_cuda_interface");
  if (interface() == std::string_view(interface_hash())) return;
  throw Error(ExitCode::kDevice,
              fmt::format("the CUDA plug-in {} was built from other sources than this zplan: build "
                          "both from the same",
                          cuda_plugin_path()));
}

}  // namespace

std::string cuda_plugin_path() {
  if (const char* named = std::getenv("ZPLAN_CUDA_PLUGIN")) return named;
  constexpr const char* kName = "libzplan_cuda.so";
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / kName;
  const fs::path installed = folder.parent_path() / "lib/zplan" / kName;
  const bool is_installed = !fs::exists(beside, error) && fs::exists(installed, error);
  return (is_installed ? installed : beside).string();
}

std::unique_ptr<Device> load_cuda_device(const CudaDeviceOptions& options) {
  demand_same_sources();
  const auto make = function<decltype(zplan_make_cuda_device)>("zplan_make_cuda_device");
  return std::unique_ptr<Device>(make(options));
}

}  // namespace zplan::exec
