#include "exec/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "exec/cuda/plugin.h"
#include "exec/interface_hash.h"
#include "planner/core/error.h"
#include "planner/core/program_parts.h"

namespace zplan::exec {
namespace {

constexpr const char* kNamed = "ZPLAN_CUDA_PLUGIN";

// It stays loaded: what it made may live as long as the process.
void* plugin() {
  const std::string path = cuda_plugin_path();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw Error(
        ExitCode::kDevice,
        fmt::format("there is no CUDA plug-in {}: build the target zplan_cuda_plugin where a "
                    "CUDA toolkit is installed",
                    path));
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
  if (const char* named = std::getenv(kNamed)) return named;
  return part_path(ProgramPart::kCuda);
}

std::unique_ptr<Device> load_cuda_device(const CudaDeviceOptions& options) {
  if (std::getenv(kNamed) == nullptr) build_part(ProgramPart::kCuda);
  demand_same_sources();
  const auto make = function<decltype(zplan_make_cuda_device)>("zplan_make_cuda_device");
  return std::unique_ptr<Device>(make(options));
}

}  // namespace zplan::exec
