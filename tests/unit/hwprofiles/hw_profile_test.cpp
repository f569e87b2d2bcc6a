// The hardware catalogue, cluster names and the file format.
#include "hwprofiles/hw_profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/running.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

std::string text_of(std::string_view name) {
  for (const EmbeddedFile& file : embedded_profiles()) {
    if (file.name == name) return std::string(file.text);
  }
  return {};
}

// The workstation file with the first `from` replaced by `to`; the error without file position.
std::string edited_error(const std::string& from, const std::string& to) {
  std::string text = text_of("hwprofiles/catalogue/workstation.json");
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::string message = message_of([&] { parse_hw_profile(text, "w"); });
  const std::size_t pointer = message.find(": ");
  return pointer == std::string::npos ? message : message.substr(pointer + 2);
}

TEST(NodeCatalogue, HoldsTheNamedKinds) {
  std::vector<std::string> names;
  for (const HwProfile& node : node_catalogue()) names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a100-pcie-40",
                                             "a100-pcie-80",
                                             "aws-g5",
                                             "aws-p4d",
                                             "aws-p4de",
                                             "aws-p5",
                                             "aws-p5e",
                                             "aws-p5en",
                                             "aws-p6-b200",
                                             "aws-trn2",
                                             "azure-nd-a100-v4",
                                             "azure-nd-h100-v5",
                                             "azure-nd-h200-v5",
                                             "azure-ndm-a100-v4",
                                             "dgx-a100",
                                             "dgx-a100-40",
                                             "dgx-b200",
                                             "dgx-b300",
                                             "dgx-h100",
                                             "dgx-h200",
                                             "dgx1",
                                             "dgx2",
                                             "frontier",
                                             "gb200-tray",
                                             "gb300-tray",
                                             "gcp-a2-highgpu",
                                             "gcp-a2-ultragpu",
                                             "gcp-a3-highgpu",
                                             "gcp-a3-megagpu",
                                             "gcp-a3-ultragpu",
                                             "gcp-a4-highgpu",
                                             "gcp-a4x-highgpu",
                                             "gcp-g2",
                                             "gh200",
                                             "hgx-h20",
                                             "hgx-h800",
                                             "l40s-server",
                                             "mi300x",
                                             "mi325x",
                                             "mi355x",
                                             "rtx-a6000-workstation",
                                             "rtx-pro-6000-workstation",
                                             "rtx3090-workstation",
                                             "rtx4090-12ssd",
                                             "rtx4090-workstation",
                                             "rtx5090-workstation",
                                             "titan-rtx-workstation",
                                             "tpu-v5p",
                                             "tpu-v6e",
                                             "tpu-v7x",
                                             "workstation"}));
}

TEST(NodeCatalogue, PowerIsThatOfTheDataSheetsAndPricesAreTheUsers) {
  const auto watts = [](const char* name) {
    return max_power_watts(load_cluster(name).node).value_or(RunningFigure{}).value;
  };
  EXPECT_EQ(watts("dgx2"), 10'000);
  EXPECT_EQ(watts("dgx-a100"), 6'500);
  EXPECT_EQ(watts("dgx-h100"), 10'200);
  EXPECT_EQ(watts("workstation"), 0);
  EXPECT_EQ(watts("aws-p5"), 0) << "not that of the DGX that it is taken from";
  for (const HwProfile& node : node_catalogue()) EXPECT_FALSE(gpu_hour_price(node)) << node.name;
}

TEST(NodeCatalogue, AProfileMayStateAPrice) {
  const std::string running =
      R"("running": {"gpu_hour_price": {"value": 2.5, "source": "measured", "ref": "our bill"}},)";
  std::string text = text_of("hwprofiles/catalogue/workstation.json");
  const std::size_t at = text.find("\n  \"latency\"");
  ASSERT_NE(at, std::string::npos);
  const auto price = gpu_hour_price(parse_hw_profile(std::string(text).insert(at, running), "w"));
  ASSERT_TRUE(price.has_value());
  EXPECT_EQ(price->value, 2.5);
  EXPECT_EQ(price->ref, "our bill");
  const std::string odd = R"("running": {"watts": {"value": 1, "source": "assumed", "ref": "x"}},)";
  EXPECT_NE(
      message_of([&] { parse_hw_profile(std::string(text).insert(at, odd), "w"); }).find("watts"),
      std::string::npos);
}

TEST(NodeCatalogue, NamesAndAliasesAreUnique) {
  std::set<std::string> seen;
  for (const HwProfile& node : node_catalogue()) {
    EXPECT_TRUE(seen.insert(to_lower(node.name)).second);
    for (const std::string& alias : node.aliases) EXPECT_TRUE(seen.insert(to_lower(alias)).second);
  }
}

TEST(NodeCatalogue, EveryNumberNamesItsSource) {
  for (const HwProfile& node : node_catalogue()) {
    EXPECT_GT(node.sources.size(), 40u);
    EXPECT_EQ(node.hash.size(), 32u);
    for (const ValueSource& value : node.sources) {
      EXPECT_FALSE(value.value.empty()) << node.name << value.pointer;
      EXPECT_FALSE(value.ref.empty()) << node.name << value.pointer;
      EXPECT_FALSE(value.pointer.empty());
    }
  }
}

TEST(NodeCatalogue, FractionsAndReservesMakeSense) {
  for (const HwProfile& node : node_catalogue()) {
    EXPECT_LT(node.device.reserve(), node.device.memory) << node.name;
    EXPECT_GT(node.host.usable(), Bytes{0}) << node.name;
    EXPECT_EQ(node.devices_per_node, node.topology.gpus()) << node.name;
    EXPECT_TRUE(node.device.supports("fp32")) << node.name;
  }
}

TEST(Dgx2Profile, HasThePublishedFigures) {
  const HwProfile node = load_cluster("dgx2").node;
  EXPECT_EQ(node.devices_per_node, 16);
  EXPECT_EQ(node.device.memory, Bytes{34'091'302'912});  // not the label "32 GB"
  EXPECT_EQ(node.device.peak("fp16"), FlopsPerSecond{125e12});
  EXPECT_NEAR(node.device.gemm_efficiency, 0.84, 1e-9);  // 0.56 was a stack's
  EXPECT_EQ(node.device.gemm_overhead, Seconds{2.5e-6});
  EXPECT_EQ(node.device.kernel_set, "cuda.sm70.fp16.unfused");
  EXPECT_EQ(node.host.memory, Bytes{1536LL << 30});
  EXPECT_NEAR(node.nvme.read_bandwidth().value, 25.6e9, 1);
  EXPECT_EQ(node.latency.collective_inter, Seconds{1e-6});
}

TEST(DgxH100Profile, HasThePublishedFigures) {
  const HwProfile node = load_cluster("dgx-h100").node;
  EXPECT_EQ(node.devices_per_node, 8);
  EXPECT_EQ(node.device.peak("bf16"), FlopsPerSecond{989.4e12});
  EXPECT_NEAR(node.device.peak("bf16").value * node.device.gemm_efficiency, 794.5e12, 0.1e12);
  EXPECT_EQ(node.device.kernel_set, "cuda.sm90.bf16");
  const Topology topology(node.topology);
  EXPECT_EQ(topology.nics().size(), 8u);
  EXPECT_EQ(node.topology.nic.capacity, BytesPerSecond{50e9});
  EXPECT_EQ(node.topology.gpu_peer->capacity, BytesPerSecond{450e9});
  EXPECT_NEAR(static_cast<double>(node.nvme.capacity.value), 30e12, 1e12);
}

TEST(FuyouServerProfile, HasThePublishedFigures) {
  const HwProfile node = load_cluster("rtx4090-12ssd").node;
  EXPECT_EQ(node.devices_per_node, 4);
  EXPECT_EQ(node.device.peak("bf16"), FlopsPerSecond{165.15e12});  // fp32 accumulation
  EXPECT_EQ(node.device.kernel_set, "cuda.sm89.bf16");
  EXPECT_FALSE(node.topology.gpu_peer.has_value());
  EXPECT_EQ(node.topology.nics(), 0);
  EXPECT_NEAR(node.nvme.read_bandwidth().value, 12 * 7.1e9, 1);
  EXPECT_NEAR(node.nvme.write_bandwidth().value, 12 * 3.8e9, 1);
  EXPECT_EQ(node.host.memory, Bytes{768LL << 30});
}

TEST(DeviceProfile, RefusesAFormatItLacks) {
  const DeviceProfile device = load_cluster("dgx2").node.device;
  EXPECT_FALSE(device.supports("bf16"));
  EXPECT_EQ(message_of([&] { device.peak("bf16"); }),
            "device V100-SXM3-32GB has no bf16 arithmetic");
}

TEST(LoadCluster, ReadsNamesWithAndWithoutCount) {
  EXPECT_EQ(load_cluster("dgx2").nodes, 1);
  EXPECT_EQ(load_cluster("dgx2").name, "dgx2");
  EXPECT_EQ(load_cluster("dgx2x32").nodes, 32);
  EXPECT_EQ(load_cluster("dgx2x32").devices(), 512);
  EXPECT_EQ(load_cluster("DGX2X32").name, "dgx2x32");
  EXPECT_EQ(load_cluster("DGX-2x4").name, "dgx2x4");
  EXPECT_EQ(load_cluster("dgx-a100x3").devices(), 24);
  EXPECT_EQ(load_cluster("dgx2x1").name, "dgx2");
  EXPECT_EQ(load_cluster("workstationx100000").nodes, 100'000);
}

TEST(LoadCluster, RefusesCountsOutOfRange) {
  EXPECT_EQ(message_of([] { load_cluster("dgx2x0"); }),
            "cluster \"dgx2x0\": expected a node count from 1 to 100000, got 0");
  EXPECT_EQ(message_of([] { load_cluster("dgx2x100001"); }),
            "cluster \"dgx2x100001\": expected a node count from 1 to 100000, got 100001");
  EXPECT_EQ(message_of([] { load_cluster("dgx2x99999999999"); }),
            "cluster \"dgx2x99999999999\": expected a node count from 1 to 100000, got "
            "99999999999");
}

TEST(LoadCluster, UnknownNameShowsTheNearest) {
  const auto start = [](const char* text) {
    const std::string message = message_of([&] { load_cluster(text); });
    return message.substr(0, message.find(" (known"));
  };
  EXPECT_EQ(start("dgx3"), "unknown cluster \"dgx3\"; did you mean \"dgx1\"?");
  EXPECT_EQ(start("dgx3x4"), "unknown cluster \"dgx3x4\"; did you mean \"dgx1x4\"?");
  EXPECT_EQ(start("workstatoin"), "unknown cluster \"workstatoin\"; did you mean \"workstation\"?");
  EXPECT_EQ(start("zebra"), "unknown cluster \"zebra\"");
  EXPECT_EQ(start(""), "unknown cluster \"\"");
  EXPECT_EQ(start("x4"), "unknown cluster \"x4\"");
}

TEST(LoadCluster, ReadsAFileWithAndWithoutCount) {
  const std::string path = testing::TempDir() + "/hw_profile_test.json";
  std::ofstream(path) << text_of("hwprofiles/catalogue/dgx2.json");
  EXPECT_EQ(load_cluster(path).devices(), 16);
  EXPECT_EQ(load_cluster(path + "x4").devices(), 64);
  EXPECT_EQ(load_cluster(path).node.hash, load_cluster("dgx2").node.hash);
  EXPECT_THROW(load_cluster(path + "x0"), Error);
  EXPECT_THROW(load_cluster(path + "y4"), Error);
  std::filesystem::remove(path);
}

TEST(ParseHwProfile, DrivesReachAShareOfTheirDataSheet) {
  std::string text = text_of("hwprofiles/catalogue/rtx4090-12ssd.json");
  const std::string_view whole = "\"efficiency\": {\"value\": 1,";
  text.replace(text.find(whole), whole.size(), "\"efficiency\": {\"value\": 0.78,");
  const HwProfile node = parse_hw_profile(text, "w");
  EXPECT_EQ(node.nvme.efficiency, 0.78);
  EXPECT_NEAR(node.topology.nvme_read.effective().value, 0.78 * 7.1e9, 1);
  EXPECT_NEAR(node.topology.nvme_write.effective().value, 0.78 * 3.8e9, 1);
  EXPECT_EQ(load_cluster("dgx2").node.nvme.efficiency, 1) << "its rates are measured";
}

TEST(ParseHwProfile, DrivesAreOptional) {
  std::string text = text_of("hwprofiles/catalogue/workstation.json");
  const std::size_t begin = text.find("  \"nvme\""), end = text.find("  \"latency\": {\n");
  text.erase(begin, end - begin);
  const HwProfile node = parse_hw_profile(text, "w");
  EXPECT_EQ(node.nvme.drives, 0);
  EXPECT_EQ(node.nvme.capacity, Bytes{0});
  EXPECT_TRUE(Topology(node.topology).nvme_drives().empty());
}

TEST(ParseHwProfile, DefectsAreNamed) {
  EXPECT_EQ(edited_error("\"value\": \"1 GiB\"", "\"value\": 1"),
            "/device/memory/value: expected a size with a unit such as \"80 GiB\", got number 1");
  EXPECT_EQ(edited_error("\"value\": 0.8", "\"value\": 1.8"),
            "/device/gemm_efficiency/value: expected a number from 1e-06 to 1, got number 1.8");
  EXPECT_EQ(edited_error("\"value\": 0.8", "\"value\": 0"),
            "/device/gemm_efficiency/value: expected a number from 1e-06 to 1, got number 0");
  EXPECT_EQ(edited_error("\"source\": \"assumed\"", "\"source\": \"guessed\""),
            "/device/memory/source: expected one of \"datasheet\", \"measured\", \"fitted\", "
            "\"assumed\", got string \"guessed\"");
  EXPECT_EQ(edited_error("\"fp64\"", "\"fp65\""),
            "/device/peak/fp65: expected key \"fp64\", got unknown key \"fp65\"");
  EXPECT_EQ(edited_error("\"16 MiB\"", "\"16 GiB\""),
            "/device/reserve: expected a reserve below the memory of the device, got as much or "
            "more");
  EXPECT_EQ(edited_error("\"4 GiB\"", "\"64 GiB\""),
            "/host/reserve: expected a reserve below the memory, got as much or more");
  EXPECT_EQ(edited_error("\"sockets\": 1", "\"sockets\": 2"),
            "/topology/links: expected key \"socket_peer\", got an object without it");
  EXPECT_EQ(edited_error("\"gpus_per_switch\": 4", "\"gpus_per_switch\": 1024"),
            "/topology: expected at most 1024 GPUs and NICs, got more");
  EXPECT_EQ(edited_error("\"gpu_pcie\"", "\"gpu_pci\""),
            "/topology/links: expected key \"gpu_pcie\", got \"gpu_pci\" instead");
  EXPECT_EQ(edited_error("zplan.hw/1", "zplan.hw/2"),
            "/schema: expected \"zplan.hw/1\", got string \"zplan.hw/2\"");
}

}  // namespace
}  // namespace zplan
