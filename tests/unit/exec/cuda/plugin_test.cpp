// The CUDA plug-in, loaded: what is told where it, a library, a driver or a device is missing.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "exec/cuda_plugin.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

namespace fs = std::filesystem;

// Names the plug-in for as long as it lives.
class NamedPlugin {
 public:
  explicit NamedPlugin(const std::string& path) { setenv("ZPLAN_CUDA_PLUGIN", path.c_str(), 1); }
  ~NamedPlugin() { unsetenv("ZPLAN_CUDA_PLUGIN"); }
};

bool has_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

fs::path plugin_beside_this_program() {
  return fs::read_symlink("/proc/self/exe").parent_path() / "libzplan_cuda.so";
}

// The text of the error, which is one line about the device.
std::string failure() {
  try {
    load_cuda_device({});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "a device was made";
  return "";
}

TEST(CudaPluginTest, SaysThatThereIsNone) {
  const NamedPlugin plugin("/nonexistent/libzplan_cuda.so");
  EXPECT_EQ(failure(),
            "there is no CUDA plug-in /nonexistent/libzplan_cuda.so: build the target "
            "zplan_cuda_plugin where a CUDA toolkit is installed");
}

TEST(CudaPluginTest, SaysWhyItCannotBeLoaded) {
  const fs::path file =
      fs::temp_directory_path() / ("zplan_not_a_library_" + std::to_string(getpid()) + ".so");
  std::ofstream(file) << "no library";
  const NamedPlugin plugin(file.string());
  const std::string text = failure();
  fs::remove(file);
  EXPECT_EQ(text.find("cannot load the CUDA plug-in: "), 0u) << text;
  EXPECT_NE(text.find(file.filename().string()), std::string::npos) << text;
}

TEST(CudaPluginTest, SaysThatALibraryIsNotThePlugin) {
  Dl_info c_library{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&dlopen), &c_library), 0);
  const NamedPlugin plugin(c_library.dli_fname);
  EXPECT_EQ(failure().find("the CUDA plug-in is not of this zplan: "), 0u);
}

TEST(CudaPluginTest, RefusesOneOfOtherSources) {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path file = folder / "other_sources/libzplan_cuda.so";
  ASSERT_TRUE(fs::exists(file)) << file;
  const NamedPlugin plugin(file.string());
  EXPECT_EQ(failure(), "the CUDA plug-in " + file.string() +
                           " was built from other sources than this zplan: build both from the "
                           "same");
}

TEST(CudaPluginTest, SaysThatThereIsNoDriver) {
  if (!fs::exists(plugin_beside_this_program())) GTEST_SKIP() << "built without CUDA";
  if (has_driver()) GTEST_SKIP() << "this machine has an NVIDIA driver";
  EXPECT_EQ(failure(), "there is no NVIDIA driver on this machine: CUDA kernels cannot run here");
}

TEST(CudaPluginTest, MakesADevice) {
  if (!fs::exists(plugin_beside_this_program())) GTEST_SKIP() << "built without CUDA";
  if (!has_driver()) GTEST_SKIP() << "this machine has no NVIDIA driver";
  const auto device = load_cuda_device({});
  EXPECT_TRUE(device->host_reaches(Tier::kCpu));
  EXPECT_FALSE(device->host_reaches(Tier::kGpu));
}

}  // namespace
}  // namespace zplan::exec
