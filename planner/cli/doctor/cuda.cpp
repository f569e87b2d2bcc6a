// The CUDA side is asked through dlopen alone, so that this also runs where nothing of it exists.
// Numbers and signatures of the driver's functions are those of cuda.h, which have not changed
// since CUDA 3.2.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>

#include "exec/cuda_plugin.h"
#include "planner/cli/doctor/doctor.h"
#include "planner/core/program_parts.h"
#include "planner/core/quantity.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

constexpr const char* kRunsPlans = "run on a GPU";

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};

// A shared library as long as the object lives; `error` says why there is none.
class Library {
 public:
  explicit Library(const std::string& name)
      : handle_(dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)), name_(name) {
    if (!handle_) error_ = dlerror();
  }

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& name() const { return name_; }
  const std::string& error() const { return error_; }
  // Null when the library has no such function.
  template <typename Function>
  Function* function(const char* symbol) const {
    return reinterpret_cast<Function*>(dlsym(handle_.get(), symbol));
  }

 private:
  std::unique_ptr<void, CloseLibrary> handle_;
  std::string name_, error_;
};

// major * 1000 + minor * 10
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

// major * 10000 + minor * 100 + patch
std::string library_version(long number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

// ---- driver and devices ------------------------------------------------------------------------

// "580.159.04", the first word of the first line that looks like a version.
std::optional<std::string> kernel_module_version() {
  std::ifstream in("/proc/driver/nvidia/version");
  for (std::string word; in >> word;) {
    const bool is_version = std::count(word.begin(), word.end(), '.') >= 1 &&
                            word.find_first_not_of("0123456789.") == std::string::npos &&
                            word.front() != '.';
    if (is_version) return word;
  }
  return std::nullopt;
}

class Driver {
 public:
  Driver() : library_("libcuda.so.1") {
    if (!library_) {
      error_ = "libcuda.so.1 is not there";
      return;
    }
    const int result = call<unsigned>("cuInit", 0U);
    if (result != 0) error_ = "libcuda.so.1 is there, but cuInit says: " + words(result);
    int version = 0;
    if (error_.empty() && call<int*>("cuDriverGetVersion", &version) == 0)
      version_ = cuda_version(version);
  }

  const std::string& error() const { return error_; }  // empty: the driver is usable
  const std::string& version() const { return version_; }

  int devices() const {
    int count = 0;
    return error_.empty() && call<int*>("cuDeviceGetCount", &count) == 0 ? count : 0;
  }

  struct Device {
    std::string name;
    int capability = 0;  // 10 x major + minor
    Bytes memory{0};
  };
  Device device(int ordinal) const {
    constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;  // CUdevice_attribute
    int handle = 0, major = 0, minor = 0;
    std::size_t bytes = 0;
    std::array<char, 256> name{};
    call<int*, int>("cuDeviceGet", &handle, ordinal);
    call<char*, int, int>("cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1,
                          handle);
    call<int*, int, int>("cuDeviceGetAttribute", &major, kCapabilityMajor, handle);
    call<int*, int, int>("cuDeviceGetAttribute", &minor, kCapabilityMinor, handle);
    call<std::size_t*, int>("cuDeviceTotalMem_v2", &bytes, handle);
    return {name.data(), 10 * major + minor, Bytes{static_cast<std::int64_t>(bytes)}};
  }

 private:
  static constexpr int kNotFound = 500;  // CUDA_ERROR_NOT_FOUND

  template <typename... Arguments>
  int call(const char* symbol, Arguments... arguments) const {
    const auto function = library_.function<int(Arguments...)>(symbol);
    return function == nullptr ? kNotFound : function(arguments...);
  }

  std::string words(int result) const {
    const char* text = nullptr;
    const int known = call<int, const char**>("cuGetErrorString", result, &text);
    return known == 0 && text != nullptr ? text : fmt::format("error {}", result);
  }

  Library library_;
  std::string error_, version_;
};

HostFinding driver_finding(const Driver& driver) {
  HostFinding f{
      "NVIDIA driver", Presence::kNo, driver.error(), kRunsPlans,
      "install the NVIDIA driver; in a container, start it with the GPU passed in (--gpus)"};
  const auto module = kernel_module_version();
  if (!driver.error().empty()) {
    if (module) f.found = fmt::format("kernel module {}, but {}", *module, driver.error());
    return f;
  }
  f.presence = Presence::kYes;
  f.found = fmt::format("{}for CUDA up to {}", module ? *module + ", " : "", driver.version());
  f.advice.clear();
  return f;
}

// The kernel sets of the highest capability that the device has: "cuda.sm90.fp32 .bf16 .fp16
// .bf16.unfused".
std::string best_kernel_sets(int capability) {
  std::string found;
  int best = 0;
  for (const KernelSet& set : kernel_sets()) {
    if (set.runs_on != RunsOn::kCuda || set.capability > capability || set.capability < best)
      continue;
    const std::string id(set.id);
    if (set.capability > best) found = id;
    if (set.capability == best) found += " " + id.substr(id.find('.', id.find('.') + 1));
    best = set.capability;
  }
  return found;
}

HostFinding device_finding(int ordinal, const Driver::Device& device) {
  HostFinding f{fmt::format("GPU {}", ordinal), Presence::kYes, "", kRunsPlans, ""};
  const std::string sets = best_kernel_sets(device.capability);
  f.found = fmt::format("{}, {}, compute capability {}.{}; {}", device.name,
                        format_bytes(device.memory), device.capability / 10, device.capability % 10,
                        sets.empty() ? "no kernel set" : sets);
  if (!sets.empty()) return f;
  f.presence = Presence::kNo;
  f.advice = "no kernels are offered for devices this old: use another GPU, or cpu.* plans";
  return f;
}

HostFindings device_findings(const Driver& driver) {
  HostFindings found;
  const int count = driver.devices();
  for (int i = 0; i < count; ++i) found.push_back(device_finding(i, driver.device(i)));
  if (count > 0) return found;
  HostFinding none{"GPU", Presence::kNo, "none", kRunsPlans,
                   "plans of cpu.* kernel sets run without one"};
  if (driver.error().empty() && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr)
    none.advice = "CUDA_VISIBLE_DEVICES is set: it may hide devices; " + none.advice;
  return {none};
}

// ---- toolkit -----------------------------------------------------------------------------------

// The compiler, in PATH or where the toolkit's own installer puts it.
std::optional<std::filesystem::path> find_nvcc() {
  if (const auto in = in_path("nvcc")) return *in;
  const std::filesystem::path usual = "/usr/local/cuda/bin/nvcc";
  std::error_code failed;
  if (std::filesystem::exists(usual, failed)) return usual;
  return std::nullopt;
}

// "13.0", from the line "#define CUDA_VERSION 13000" of the headers beside it.
std::string toolkit_version(const std::filesystem::path& nvcc) {
  std::error_code failed;
  const auto root = std::filesystem::canonical(nvcc, failed).parent_path().parent_path();
  std::ifstream in(root / "include" / "cuda.h");
  int number = 0;
  for (std::string word; in >> word;)
    if (word == "CUDA_VERSION" && in >> number) return cuda_version(number);
  return "";
}

HostFinding toolkit_finding() {
  HostFinding f{"CUDA toolkit", Presence::kNo, "no nvcc in PATH or /usr/local/cuda/bin",
                "build the CUDA plug-in", "install CUDA toolkit 12 or 13, and build zplan again"};
  const auto nvcc = find_nvcc();
  if (!nvcc) return f;
  const std::string version = toolkit_version(*nvcc);
  f.presence = Presence::kYes;
  f.found = version.empty() ? nvcc->string() : fmt::format("{} ({})", version, nvcc->string());
  f.advice.clear();
  return f;
}

// ---- plug-in and libraries ---------------------------------------------------------------------

HostFinding plugin_finding(const std::filesystem::path& path, const Library& plugin) {
  HostFinding f{"CUDA plug-in", Presence::kNo, "", kRunsPlans, ""};
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) {
    const bool is_usual = path == part_path(ProgramPart::kCuda);
    f.found = is_usual ? fmt::format("{} is not beside the program", path.filename().string())
                       : fmt::format("{} does not exist", path.string());
    f.advice =
        "./zplan builds it when a plan for GPUs is first run, where the CUDA toolkit is (nvcc 12 "
        "or "
        "later, cuBLASLt, cuDNN 9, NCCL 2); so does the target zplan_cuda_plugin";
    return f;
  }
  f.presence = plugin ? Presence::kYes : Presence::kPartly;
  f.found = plugin ? path.filename().string() : plugin.error();
  if (!plugin) f.advice = "install the library it names, or add its folder to LD_LIBRARY_PATH";
  return f;
}

struct LibraryKind {
  const char* item;
  std::initializer_list<const char*> names;  // the newest first
  const char* use;
  std::string (*version)(const Library&);
};

// From a function that returns the number.
template <typename Number>
std::string returned_version(const Library& library, const char* symbol) {
  const auto function = library.function<Number()>(symbol);
  return function == nullptr ? "" : library_version(static_cast<long>(function()));
}

std::string nccl_version(const Library& library) {
  const auto function = library.function<int(int*)>("ncclGetVersion");
  int number = 0;
  return function == nullptr || function(&number) != 0 ? "" : library_version(number);
}

const LibraryKind kLibraries[] = {
    {"cuBLASLt",
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     "matrix products on a GPU",
     [](const Library& l) { return returned_version<std::size_t>(l, "cublasLtGetVersion"); }},
    {"cuDNN",
     {"libcudnn.so.9"},
     "attention on a GPU",
     [](const Library& l) { return returned_version<std::size_t>(l, "cudnnGetVersion"); }},
    {"NCCL", {"libnccl.so.2"}, "communication between GPUs", nccl_version},
};

HostFinding library_finding(const LibraryKind& kind) {
  HostFinding f{kind.item, Presence::kNo, "", kind.use, ""};
  for (const char* name : kind.names) {
    const Library library(name);
    if (library) {
      const std::string version = kind.version(library);
      f.presence = Presence::kYes;
      f.found = version.empty() ? name : fmt::format("{} ({})", version, name);
      return f;
    }
    f.found += (f.found.empty() ? "" : "; ") + library.error();
  }
  f.advice = fmt::format("install {}, or add its folder to LD_LIBRARY_PATH", kind.item);
  return f;
}

}  // namespace

HostFindings examine_cuda() {
  const Driver driver;
  HostFindings found{driver_finding(driver)};
  for (HostFinding& device : device_findings(driver)) found.push_back(std::move(device));
  found.push_back(toolkit_finding());
  // Stays open: libraries that it brings along from elsewhere are then found by their names.
  const std::filesystem::path path = exec::cuda_plugin_path();
  const Library plugin(path.string());
  found.push_back(plugin_finding(path, plugin));
  for (const LibraryKind& kind : kLibraries) found.push_back(library_finding(kind));
  return found;
}

}  // namespace zplan
