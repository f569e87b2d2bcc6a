// Where the pinned memory of a device lies: the node of its socket, where there are several.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "exec/cuda/cuda_device.h"
#include "tests/support/gpu/stand_in.h"
#include "tests/support/memory_policy.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan {
namespace {

// A machine of such nodes, with devices a0 without a node and a1 at node 0: every machine has it.
class PinnedMemory : public exec::testing::StorageFolder {
 protected:
  PinnedMemory() {
    write("devices/system/node/online", "0-1\n");
    write("bus/pci/devices/0000:a0:00.0/numa_node", "-1\n");
    write("bus/pci/devices/0000:a1:00.0/numa_node", "0\n");
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  std::optional<int> node_of_slab(int device) const {
    exec::cuda::CudaDevice owner({.local_rank = device, .system = folder_.string()});
    const exec::Slab slab = owner.make_slab(Tier::kCpu, Bytes{8192});
    return gpu_.pinned_node();
  }

  stand_in::StandIn gpu_{{.devices = 2}};
};

TEST_F(PinnedMemory, IsAskedForOfTheNodeOfTheDevice) {
  if (!testing_support::may_choose_policy())
    GTEST_SKIP() << "this system lets nobody choose the node of memory";
  EXPECT_EQ(node_of_slab(1), 0);
  EXPECT_EQ(testing_support::preferred_node(), std::nullopt);
  EXPECT_EQ(gpu_.close(), std::vector<std::string>{});
}

TEST_F(PinnedMemory, IsAnywhereWithoutOneOrOnOneNode) {
  EXPECT_EQ(node_of_slab(0), std::nullopt);
  write("devices/system/node/online", "0\n");
  EXPECT_EQ(node_of_slab(1), std::nullopt);
}

TEST_F(PinnedMemory, OfADeviceThatDoesNotSayWhereItIsIsHadAllTheSame) {
  gpu_.fail_call("cudaDeviceGetPCIBusId", cudaErrorNotSupported);
  EXPECT_EQ(node_of_slab(1), std::nullopt);
}

}  // namespace
}  // namespace zplan
