// Hardware by name: what a change sets, what follows it, and what is refused.
#include "hwprofiles/quantities.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hwprofiles/kernel_tables.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

Cluster changed(const std::string& cluster, const std::vector<std::string>& texts) {
  return with_changes(load_cluster(cluster), parse_changes(texts));
}

using Values = std::map<std::string_view, double>;
Values values_of(const Cluster& cluster) {
  Values values;
  for (const HardwareQuantity& quantity : hardware_quantities())
    if (const auto value = quantity.get(cluster)) values[quantity.name] = *value;
  return values;
}

// Quantities that are in proportion, or read the same number.
const std::map<std::string_view, std::set<std::string_view>> kTogether{
    {"nvme", {"nvme.read", "nvme.write"}},
    {"nvme.read", {"nvme"}},
    {"pcie", {"pcie.gpu", "pcie.uplink"}},
    {"pcie.gpu", {"pcie"}}};

constexpr const char* kClusters[] = {"dgx2x4", "dgx-a100", "dgx-h100x1024-2to1", "rtx4090-12ssd",
                                     "workstation"};

TEST(Quantities, OfMemoriesAreLabelsInGibibytes) {
  constexpr double kGibi = 1 << 30;
  EXPECT_EQ(parse_change("cpu.memory=128GB").value, 128 * kGibi);
  EXPECT_EQ(parse_change("cpu.memory=1TB").value, 1024 * kGibi);
  EXPECT_EQ(parse_change("gpu.memory=80 GB").value, 80 * kGibi);
  EXPECT_EQ(parse_change("cpu.memory=128GiB").value, 128 * kGibi);
  EXPECT_EQ(parse_change("nvme.capacity=1TB").value, 1e12);
  EXPECT_EQ(changed("dgx2", {"cpu.memory=128GB"}).sources.back().ref,
            "in place of 1.50 TiB; GB of a memory is a label and means GiB");
  EXPECT_EQ(changed("dgx2", {"cpu.memory=128GiB"}).sources.back().ref, "in place of 1.50 TiB");
  EXPECT_EQ(load_cluster("dgx2{cpu.memory=128GB}").name, "dgx2{cpu.memory=128GiB}");
}

TEST(Quantities, PartsOfAMeshKeepTheirLinks) {
  EXPECT_EQ(changed("mi300x", {"gpus_per_node=4"}).node.topology.peer_shape.gpus, 8);
  EXPECT_EQ(message_of([] { changed("mi300x", {"gpus_per_node=16"}); }),
            "gpus_per_node: expected as many as its peer links join, got 16");
}

TEST(Quantities, AreReadAsTheyWereSetAndChangeNoOther) {
  for (const char* const name : kClusters) {
    const Cluster cluster = load_cluster(name);
    const Values before = values_of(cluster);
    EXPECT_GT(before.size(), 20u);
    for (const auto& [quantity, value] : before) {
      const QuantityChange twice{&find_quantity(quantity), 2, true};
      const Values after = values_of(with_changes(cluster, {&twice, 1}));
      ASSERT_EQ(after.size(), before.size());
      const auto together = kTogether.find(quantity);
      for (const auto& [other, was] : before) {
        const bool follows =
            other == quantity || (together != kTogether.end() && together->second.contains(other));
        EXPECT_NEAR(after.at(other), follows ? 2 * was : was, 1e-9 * was)
            << name << ": " << other << " after " << quantity;
      }
    }
  }
}

TEST(Quantities, OfTheirOwnValueChangeNothing) {
  for (const char* const name : kClusters) {
    const Cluster cluster = load_cluster(name);
    for (const auto& [quantity, value] : values_of(cluster)) {
      const QuantityChange same{&find_quantity(quantity), value, false};
      const Values after = values_of(with_changes(cluster, {&same, 1}));
      for (const auto& [other, was] : values_of(cluster))
        EXPECT_DOUBLE_EQ(after.at(other), was) << name << ": " << other << " after " << quantity;
    }
  }
}

TEST(Quantities, SlowerDrivesAndMemoryAreSlowerOnEveryWay) {
  const TopologySpec whole = load_cluster("dgx-a100").node.topology;
  const TopologySpec half = changed("dgx-a100", {"nvme=x0.5", "cpu.bandwidth=x0.5"}).node.topology;
  EXPECT_DOUBLE_EQ(half.nvme_read.capacity.value, whole.nvme_read.capacity.value / 2);
  EXPECT_DOUBLE_EQ(half.nvme_write.capacity.value, whole.nvme_write.capacity.value / 2);
  EXPECT_DOUBLE_EQ(half.dram.capacity.value, whole.dram.capacity.value / 2);
}

TEST(Quantities, ANodeWithOtherGpusKeepsItsHost) {
  const Cluster four = changed("dgx-h100x2", {"gpus_per_node=4"});
  EXPECT_EQ(four.devices(), 8);
  EXPECT_EQ(four.node.topology.gpus(), 4);
  EXPECT_EQ(four.node.host.memory, load_cluster("dgx-h100").node.host.memory);
  EXPECT_NE(message_of([] { changed("dgx-h100", {"gpus_per_node=2000"}); }).find("at most 1024"),
            std::string::npos);
  EXPECT_NE(message_of([] { changed("gb200-nvl72", {"gpus_per_node=2"}); }).find("domain"),
            std::string::npos);
}

TEST(Quantities, LeafSwitchesComeWithTheFirstOfTheirQuantities) {
  EXPECT_FALSE(find_quantity("network.oversubscription").get(load_cluster("dgx-h100x64")));
  const Cluster cluster = changed("dgx-h100x64", {"fabric.oversubscription=4"});
  EXPECT_EQ(cluster.network.nodes_per_leaf, 32);
  EXPECT_TRUE(cluster.network.rails);
  EXPECT_EQ(cluster.network.oversubscription, 4);
  EXPECT_EQ(cluster.sources.back().ref, "in place of 1");
  EXPECT_EQ(changed("dgx-h100x64", {"fabric.nodes_per_leaf=8"}).network.oversubscription, 1);
  EXPECT_NE(message_of([] {
              changed("rtx4090-12ssd", {"fabric.oversubscription=4"});
            }).find("rtx4090-12ssd has none"),
            std::string::npos);
}

TEST(Quantities, NamesMayBeginWithOtherWords) {
  EXPECT_EQ(&find_quantity("device.memory"), &find_quantity("gpu.memory"));
  EXPECT_EQ(&find_quantity("fabric.oversubscription"), &find_quantity("network.oversubscription"));
  EXPECT_NE(message_of([] { find_quantity("device.memroy"); }).find("gpu.memory"),
            std::string::npos);
}

TEST(Varied, TheNameLoadsTheSameHardware) {
  const std::vector<std::string> texts{"device.memory=40GiB", "nic=200Gbit/s", "nodes=3",
                                       "gpus_per_node=4"};
  const Cluster cluster = varied(load_cluster("dgx-h100x16"), texts);
  EXPECT_EQ(cluster.name, "dgx-h100x3{gpu.memory=40GiB,network=200Gbit/s,gpus_per_node=4}");
  const Cluster again = load_cluster(cluster.name);
  EXPECT_EQ(again.name, cluster.name);
  EXPECT_EQ(again.devices(), 12);
  EXPECT_EQ(values_of(again), values_of(cluster));
  const Cluster more = varied(again, std::vector<std::string>{"gpu.memory=x2"});
  EXPECT_EQ(more.node.device.memory, Bytes{80LL << 30});
  EXPECT_EQ(load_cluster(more.name).node.device.memory, Bytes{80LL << 30});
  EXPECT_EQ(varied(load_cluster("dgx2"), {}).name, "dgx2");
}

TEST(Varied, NamesWithoutSettingsInTheirBracesAreRefused) {
  for (const char* const name : {"dgx2{", "dgx2{}", "dgx2{nvme=x2", "dgx2{nvme=x2}x4"})
    EXPECT_NE(message_of([&] { load_cluster(name); }), "") << name;
  EXPECT_NE(message_of([] { load_cluster("dgx2{nmve=x2}"); }).find("did you mean \"nvme\""),
            std::string::npos);
}

TEST(Quantities, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const HardwareQuantity& quantity : hardware_quantities()) {
    EXPECT_TRUE(names.insert(quantity.name).second) << quantity.name;
    EXPECT_TRUE(quantity.also.empty() || names.insert(quantity.also).second) << quantity.also;
  }
}

TEST(Quantities, OfDrivesAreTheNodesAndReachEveryPartOfTheProfile) {
  const Cluster cluster = changed("dgx2", {"nvme=51.2GB/s"});
  EXPECT_DOUBLE_EQ(cluster.node.nvme.drive_read.value, 6.4e9);
  EXPECT_DOUBLE_EQ(cluster.node.nvme.drive_write.value, 6.4e9);
  EXPECT_DOUBLE_EQ(cluster.node.topology.nvme_read.capacity.value, 6.4e9);
  EXPECT_DOUBLE_EQ(cluster.node.topology.nvme_write.capacity.value, 6.4e9);
}

TEST(Quantities, SayWhatTheyReplace) {
  const Cluster cluster = changed("dgx2", {"nvme=50GB/s", "gpu.memory=141GiB"});
  ASSERT_EQ(cluster.sources.size(), 2u);
  EXPECT_EQ(cluster.sources[0].pointer, "nvme");
  EXPECT_EQ(cluster.sources[0].value, "50.0 GB/s");
  EXPECT_EQ(cluster.sources[0].source, "given");
  EXPECT_EQ(cluster.sources[0].ref, "in place of 25.6 GB/s");
  EXPECT_EQ(cluster.node.device.memory.value, std::int64_t{141} << 30);
}

TEST(Quantities, OtherCountsOfNodesHaveTheNamesThatLoadThem) {
  EXPECT_EQ(changed("dgx2", {"nodes=4"}).name, "dgx2x4");
  EXPECT_EQ(changed("dgx2x4", {"nodes=1"}).name, "dgx2");
  EXPECT_EQ(changed("dgx2x4", {"nodes=x2"}).nodes, 8);
}

// A device whose tables are read after it was changed would take what was measured.
TEST(Quantities, MeasuredProductsAndAttentionFollowThePeakWheneverTheyAreRead) {
  const ProductSize large{16384, 8192, 8192};
  const Cluster as_is = load_cluster("dgx-h100"), twice = changed("dgx-h100", {"gpu.peak=x2"});
  const auto product = [&](const Cluster& cluster) {
    const DeviceProfile& device = cluster.node.device;
    return (device.tables->product(large, "bf16", ProductPhase::kForward, device) -
            device.gemm_overhead)
        .value;
  };
  EXPECT_NEAR(product(as_is) / product(twice), 2, 0.02);
  const auto attention = [](const Cluster& cluster) {
    const DeviceProfile& device = cluster.node.device;
    return device.tables
        ->attention({.batch = 8, .heads = 32, .sequence = 4096, .head_size = 128}, device)
        ->value;
  };
  EXPECT_NEAR(attention(as_is) / attention(twice), 2, 0.02);  // but for the start of the kernel
  // Neither does a second change forget what the first one was measured against.
  const Cluster back =
      with_changes(twice, parse_changes(std::vector<std::string>{"gpu.peak=x0.5"}));
  EXPECT_NEAR(product(back), product(as_is), 1e-9);
  EXPECT_NE(twice.node.device.name, as_is.node.device.name);
}

TEST(Quantities, MeasuredCollectivesFollowThePeerLinkButForTheirStart) {
  const auto curve = [](const Cluster& cluster) {
    return cluster.node.device.collectives->curves.at({MeasuredCollective::kAllReduce, 8, 1});
  };
  const CollectiveCurve was = curve(load_cluster("dgx-h100"));
  const CollectiveCurve faster = curve(changed("dgx-h100", {"peer=x2"}));
  EXPECT_NEAR(faster.at(was.least()).value, was.at(was.least()).value, 1e-12);
  EXPECT_NEAR(faster.at(1e9).value, was.at(1e9).value / 2, 0.02 * was.at(1e9).value);
  const CollectiveCurve later = curve(changed("dgx-h100", {"latency.collective=x3"}));
  EXPECT_NEAR(later.at(was.least()).value, 3 * was.at(was.least()).value, 1e-9);
  EXPECT_NEAR(later.at(1e9).value, was.at(1e9).value, 0.05 * was.at(1e9).value);
}

TEST(Quantities, WithoutAPeerLinkCollectivesFollowPcie) {
  const auto rate = [](const Cluster& cluster) {
    return cluster.node.device.collectives->constants.rates[1].value;
  };
  EXPECT_DOUBLE_EQ(rate(changed("rtx4090-12ssd", {"pcie=x2"})),
                   2 * rate(load_cluster("rtx4090-12ssd")));
  EXPECT_DOUBLE_EQ(rate(changed("dgx2", {"pcie=x2"})), rate(load_cluster("dgx2")));
}

TEST(Quantities, SayWhatMeasuredTimesMakeOfAChange) {
  const auto note = [](const Cluster& cluster) { return cluster.sources.back().ref; };
  EXPECT_NE(note(changed("dgx-h100", {"gpu.peak=x2"})).find("follow the peak"), std::string::npos);
  EXPECT_NE(note(changed("dgx-h100", {"gpu.bandwidth=x2"})).find("where memory limits"),
            std::string::npos);
  EXPECT_NE(note(changed("dgx-h100", {"peer=x2"})).find("but for their start"), std::string::npos);
  EXPECT_EQ(note(changed("titan-rtx-workstation", {"gpu.peak=x2"})).find("measured"),
            std::string::npos);
  Cluster of_stack = load_cluster("dgx2");
  of_stack.stack.host_forward = 30e-6;
  const QuantityChange change = parse_change("gpu.launch=1us");
  EXPECT_NE(note(with_changes(of_stack, {&change, 1})).find("30.0 us of host time"),
            std::string::npos);
}

std::string refusal(const std::string& text, const std::string& cluster = "dgx2") {
  return message_of([&] { changed(cluster, {text}); });
}

TEST(Quantities, RefuseWithTheNearestNameOrTheFormExpected) {
  EXPECT_NE(refusal("nvem=50GB/s").find("did you mean \"nvme\"?"), std::string::npos);
  EXPECT_NE(refusal("nvlnk=50GB/s").find("did you mean \"nvlink\"?"), std::string::npos);
  EXPECT_NE(refusal("nvme").find("such as nvme=50GB/s"), std::string::npos);
  EXPECT_NE(refusal("nvme=50").find("expected a rate with a unit"), std::string::npos);
  EXPECT_NE(refusal("nvme=0GB/s").find("expected more than nothing"), std::string::npos);
  EXPECT_NE(refusal("nvme=x0").find("or a factor such as x2"), std::string::npos);
  EXPECT_NE(refusal("nodes=1.5").find("a whole number"), std::string::npos);
  EXPECT_NE(refusal("nodes=1e9").find("at most 100,000"), std::string::npos);
  EXPECT_NE(refusal("gpu.memory=1MiB").find("more than the reserve"), std::string::npos);
  EXPECT_NE(refusal("cpu.memory=1MiB").find("more than the reserve"), std::string::npos);
  EXPECT_NE(refusal("peer=1GB/s", "workstation").find("workstation has none"), std::string::npos);
  EXPECT_NE(refusal("network.oversubscription=0.5").find("expected"), std::string::npos);
  EXPECT_NE(message_of([] {
              parse_changes(std::vector<std::string>{"nvme=x2", "nvme=x3"});
            }).find("given more than once"),
            std::string::npos);
}

TEST(Quantities, LatenciesMayBeNothing) {
  EXPECT_EQ(changed("dgx2", {"gpu.launch=0us"}).node.device.launch_overhead.value, 0);
}

}  // namespace
}  // namespace zplan
