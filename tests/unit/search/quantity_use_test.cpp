// What a step has to do with a quantity of the hardware.
#include "planner/search/quantity_use.h"

#include <gtest/gtest.h>

#include "hwprofiles/quantities.h"

namespace zplan {
namespace {

sim::SimResult step() {
  sim::SimResult result;
  result.period = Seconds{10};
  result.split.parts[static_cast<std::size_t>(sim::TimePart::kCompute)] = Seconds{6};
  result.split.parts[static_cast<std::size_t>(sim::TimePart::kCpu)] = Seconds{3};
  result.split.parts[static_cast<std::size_t>(sim::TimePart::kLaunch)] = Seconds{1};
  result.links = {{"nvme0", "NVMe drive", 0.5, 0.6},
                  {"nvme0>socket0", "NVMe", 0.7, 0.8},
                  {"gpu0>pcie0", "PCIe", 0.25, 0.3}};
  result.lanes = {{.latency = Seconds{0.1}}, {.latency = Seconds{0.4}}};
  return result;
}

MemoryUse memory() {
  MemoryUse use{};
  use[static_cast<std::size_t>(Tier::kGpu)] = {
      Bytes{std::int64_t{30} << 30}, Bytes{std::int64_t{40} << 30}, {}, {}, {}};
  return use;
}

std::string use(std::string_view quantity) { return use_words(quantity, step(), memory()); }

TEST(QuantityUse, OfLinksIsThatOfTheBusiest) {
  EXPECT_EQ(use("nvme"), "the busiest of its links works at 70.0 % of its rate");
  EXPECT_EQ(use("nvme.read"), use("nvme"));
  EXPECT_EQ(use("pcie.gpu"), "the busiest of its links works at 25.0 % of its rate");
  EXPECT_EQ(use("pcie.uplink"), "nothing moves over it");
  EXPECT_EQ(use("peer"), "nothing moves over it");
}

TEST(QuantityUse, OfMemoryIsWhatIsTaken) {
  EXPECT_EQ(use("gpu.memory"), "30.00 GiB of 40.00 GiB are taken");
}

TEST(QuantityUse, OfOthersIsTheirPartOfTheStep) {
  EXPECT_EQ(use("gpu.peak"), "compute takes 60.0 % of the step");
  EXPECT_EQ(use("cpu.cores"), "exposed CPU kernels take 30.0 % of the step");
  EXPECT_EQ(use("gpu.launch"), "waits for launches take 10.0 % of the step");
  EXPECT_EQ(use("latency.p2p"), "starts of transfers take a lane 4.0 % of the step at the most");
}

// Counts of parts change the plan, not what it does with them.
TEST(QuantityUse, HasWordsForEveryQuantity) {
  for (const HardwareQuantity& quantity : hardware_quantities())
    EXPECT_EQ(use(quantity.name).empty(), is_layout(quantity.name)) << quantity.name;
}

}  // namespace
}  // namespace zplan
