#include "planner/search/device_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/core/error.h"

namespace zplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

HwProfile node_with(const std::string& set) {
  HwProfile node;
  node.name = "node";
  node.device.name = "device";
  node.device.kernel_set = set;
  return node;
}

std::string refusal(const std::string& set, const HwProfile& node) {
  try {
    require_on_device(set, node);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceKernels, ADeviceHasTheSetsOfItsCapabilityAndOfSmallerOnes) {
  const HwProfile node = node_with("cuda.sm80.bf16");
  EXPECT_THAT(sets_of_device(node), Contains("cuda.sm80.bf16"));
  EXPECT_THAT(sets_of_device(node), Contains("cuda.sm70.fp16"));
  EXPECT_THAT(sets_of_device(node), Not(Contains("cuda.sm90.bf16")));
  EXPECT_EQ(refusal("cuda.sm80.bf16.unfused", node), "");
  EXPECT_EQ(refusal("cpu.f64", node), "") << "checked on the host";
}

TEST(DeviceKernels, OthersAreRefusedWithThoseThatItHas) {
  const std::string line = refusal("cuda.sm90.bf16", node_with("cuda.sm70.fp16.unfused"));
  EXPECT_THAT(line, HasSubstr("compute capability 7.0: cuda.sm70."));
  EXPECT_THAT(line, HasSubstr("got \"cuda.sm90.bf16\", which needs 9.0"));
  EXPECT_THAT(refusal("cuda.sm70.fp16", node_with("cpu.f32")), HasSubstr("a set for CPUs"));
}

TEST(DeviceKernels, AProfileWithASetOfItsOwnSaysNothing) {
  EXPECT_EQ(refusal("cuda.sm90.bf16", node_with("mine")), "");
}

}  // namespace
}  // namespace zplan
