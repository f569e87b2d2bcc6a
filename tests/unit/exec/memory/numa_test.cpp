#include "exec/memory/numa.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/memory_policy.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using testing_support::may_choose_policy;
using testing_support::preferred_node;

constexpr const char* kDevice = "0000:3B:00.0";

// A folder as /sys, of a machine with such nodes and a device that says it stands at one.
class SystemFolder : public testing::StorageFolder {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  std::optional<int> node_of(const std::string& online, const std::string& numa_node) const {
    write("devices/system/node/online", online);
    write("bus/pci/devices/0000:3b:00.0/numa_node", numa_node);
    return numa_node_of(kDevice, folder_.string());
  }
};

TEST_F(SystemFolder, SaysTheNodeOfADevice) {
  EXPECT_EQ(node_of("0-1\n", "1\n"), 1);
  EXPECT_EQ(node_of("0-1\n", "0\n"), 0);
  EXPECT_EQ(node_of("0,8\n", "8"), 8);
  EXPECT_EQ(numa_node_of("0000:3C:00.0", folder_.string()), std::nullopt);
}

TEST_F(SystemFolder, OfOneNodeOrOddContentSaysNothing) {
  EXPECT_EQ(node_of("0\n", "0\n"), std::nullopt);
  EXPECT_EQ(node_of("", "1\n"), std::nullopt);
  for (const char* odd : {"-1\n", "", "\n", "none\n", "1024\n", "99999999999999999999\n"})
    EXPECT_EQ(node_of("0-1\n", odd), std::nullopt) << odd;
  EXPECT_EQ(numa_node_of(kDevice, (folder_ / "not there").string()), std::nullopt);
}

TEST(PreferredNode, HoldsAsLongAsItLives) {
  if (!may_choose_policy()) GTEST_SKIP() << "this system lets nobody choose the node of memory";
  ASSERT_EQ(preferred_node(), std::nullopt);
  {
    const PreferredNode node(0);
    EXPECT_TRUE(node.is_set());
    EXPECT_EQ(preferred_node(), 0);
    {
      const PreferredNode within(0);  // somebody chose before
      EXPECT_FALSE(within.is_set());
    }
    EXPECT_EQ(preferred_node(), 0);
  }
  EXPECT_EQ(preferred_node(), std::nullopt);
}

TEST(PreferredNode, ThatThereIsNoneOfIsNoPolicy) {
  for (const std::optional<int> node : {std::optional<int>(), std::optional(1023)}) {
    const PreferredNode none(node);
    EXPECT_FALSE(none.is_set());
    EXPECT_EQ(preferred_node(), std::nullopt);
  }
}

}  // namespace
}  // namespace zplan::exec
