// Node files that rest on others, and the files that templates print.
#include "hwprofiles/node_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hwprofiles/build_cluster.h"
#include "hwprofiles/cluster_file.h"
#include "hwprofiles/quantities.h"
#include "planner/core/error.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing_support::message_of;

HwProfile node_of(const std::string& members) {
  return parse_hw_profile(R"({"schema": "zplan.hw/1", "name": "mine", )" + members + "}", "m.json");
}

const ValueSource& source_of(const HwProfile& node, std::string_view pointer) {
  for (const ValueSource& value : node.sources)
    if (value.pointer == pointer) return value;
  ADD_FAILURE() << pointer;
  return node.sources.front();
}

TEST(NodeFile, SaysOnlyInWhatItDiffersFromItsBase) {
  const HwProfile base = load_cluster("dgx-h100").node;
  const HwProfile node = node_of(R"("base": "DGX-H100", "device": {"memory": "40 GiB"})");
  EXPECT_EQ(node.name, "mine");
  EXPECT_EQ(node.description, "mine");
  EXPECT_TRUE(node.aliases.empty());
  EXPECT_EQ(node.device.memory, Bytes{40LL << 30});
  EXPECT_EQ(node.device.peaks, base.device.peaks);
  EXPECT_EQ(node.sources.size(), base.sources.size());
  EXPECT_EQ(source_of(node, "/device/memory").source, "stated");
  EXPECT_EQ(source_of(node, "/device/memory_bandwidth").ref,
            source_of(base, "/device/memory_bandwidth").ref);
  EXPECT_NE(node.hash, base.hash);
}

TEST(NodeFile, NullTakesAPartOfTheBaseAway) {
  const HwProfile node =
      node_of(R"("base": "dgx-h100", "nvme": null, "topology": {"links": {"gpu_peer": null}})");
  EXPECT_EQ(node.nvme.drives, 0);
  EXPECT_FALSE(node.topology.gpu_peer);
}

TEST(NodeFile, BasesMayBeFilesBesideItAndRestOnOthers) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "node_file_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "one.json")
      << R"({"schema": "zplan.hw/1", "name": "one", "base": "dgx2", "host": {"memory": "1 TiB"}})";
  std::ofstream(folder / "two.json")
      << R"({"schema": "zplan.hw/1", "name": "two", "base": "one.json", "host": {"cpu_cores": 7}})";
  const HwProfile node = load_cluster((folder / "two.json").string()).node;
  EXPECT_EQ(node.host.memory, Bytes{1LL << 40});
  EXPECT_EQ(node.host.cpu_cores, 7);
  EXPECT_EQ(node.devices_per_node, 16);
  std::ofstream(folder / "two.json")
      << R"({"schema": "zplan.hw/1", "name": "two", "base": "two.json"})";
  EXPECT_THAT(message_of([&] { load_cluster((folder / "two.json").string()); }),
              HasSubstr("/base: expected at most 8 bases one on another, got more"));
  std::filesystem::remove_all(folder);
}

TEST(NodeFile, FaultsNameTheNearest) {
  EXPECT_THAT(message_of([] { node_of(R"("base": "dgx-h10")"); }),
              HasSubstr("/base: expected a kind of node, got string \"dgx-h10\"; did you mean "
                        "\"dgx-h100\"?"));
  EXPECT_THAT(message_of([] { node_of(R"("gpu": "rtx_409")"); }),
              HasSubstr("/gpu: expected a device, got string \"rtx_409\"; did you mean "
                        "\"rtx_4090\"?"));
  EXPECT_EQ(message_of([] { node_of(R"("base": "dgx2", "host": {"memroy": "1 TiB"})"); }),
            "m.json:1:67: /host/memroy: expected key \"memory\", got unknown key \"memroy\"");
}

TEST(NodeFile, AllThatIsMissingIsToldAtOnce) {
  const std::string told = message_of([] { node_of(R"("device": {"name": "X"}, "hots": {})"); });
  for (const char* const part :
       {"/: expected keys \"latency\", \"topology\"", "expected key \"host\", got \"hots\" instead",
        "/device: expected keys \"memory\", \"peak\", \"memory_bandwidth\""})
    EXPECT_THAT(told, HasSubstr(part));
}

// One data sheet, two ways to a node: this one, and that of published runs.
TEST(NodeFile, OfAGpuIsTheNodeThatPublishedRunsGet) {
  const HardwareCatalogue catalogue = load_hardware_catalogue();
  const std::vector<HwProfile> profiles = node_catalogue();
  for (const DeviceFacts& facts : catalogue.devices) {
    const HwProfile node = node_of(R"("gpu": ")" + facts.id + "\"");
    const HwProfile other =
        build_cluster(catalogue, profiles,
                      {.device = facts.id, .gpus_per_node = node.devices_per_node})
            .cluster.node;
    EXPECT_EQ(node.device.name, other.device.name);
    EXPECT_EQ(node.device.memory, other.device.memory) << facts.id;
    EXPECT_EQ(node.device.peaks, other.device.peaks) << facts.id;
    EXPECT_EQ(node.device.memory_bandwidth, other.device.memory_bandwidth) << facts.id;
    EXPECT_EQ(node.device.gemm_efficiency, other.device.gemm_efficiency) << facts.id;
    EXPECT_EQ(node.device.attention_efficiency, other.device.attention_efficiency) << facts.id;
    EXPECT_EQ(node.device.kernel_tables, other.device.kernel_tables) << facts.id;
    EXPECT_EQ(node.device.sm_count, other.device.sm_count) << facts.id;
    const TopologySpec &here = node.topology, &there = other.topology;
    EXPECT_EQ(here.gpu_peer.has_value(), there.gpu_peer.has_value()) << facts.id;
    if (here.gpu_peer) {
      EXPECT_EQ(here.gpu_peer->effective(), there.gpu_peer->effective());
    }
    EXPECT_EQ(here.gpu_pcie.effective(), there.gpu_pcie.effective()) << facts.id;
    EXPECT_EQ(here.pcie_uplink.effective(), there.pcie_uplink.effective()) << facts.id;
  }
}

TEST(NodeFile, OfAnotherGpuTakesNothingOfItsBaseForMeasured) {
  const HwProfile node = node_of(R"("gpu": "rtx_3090")");
  for (const char* const pointer : {"/device/gemm_efficiency", "/host/memory", "/nvme/drive_read"})
    EXPECT_EQ(source_of(node, pointer).source, "assumed") << pointer;
  EXPECT_THAT(source_of(node, "/nvme/drive_read").ref, HasSubstr("as rtx4090-12ssd: measured, "));
  EXPECT_EQ(source_of(node, "/device/memory_bandwidth").source, "datasheet");
  EXPECT_EQ(node.device.kernel_set, "cuda.sm80.bf16");
}

// What is read, told by its sources, the quantities and the parts that neither shows.
void expect_same(const HwProfile& a, const HwProfile& b) {
  ASSERT_EQ(a.sources.size(), b.sources.size()) << a.name;
  for (std::size_t i = 0; i < a.sources.size(); ++i) {
    const ValueSource& other = source_of(b, a.sources[i].pointer);
    EXPECT_EQ(a.sources[i].value, other.value) << a.name << a.sources[i].pointer;
    EXPECT_EQ(a.sources[i].source, other.source) << a.name << a.sources[i].pointer;
    EXPECT_EQ(a.sources[i].ref, other.ref) << a.name << a.sources[i].pointer;
  }
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.description, b.description);
  EXPECT_EQ(a.aliases, b.aliases);
  EXPECT_EQ(a.device.name, b.device.name);
  EXPECT_EQ(a.device.kernel_set, b.device.kernel_set);
  EXPECT_EQ(a.device.kernel_tables, b.device.kernel_tables);
  EXPECT_EQ(a.devices_per_node, b.devices_per_node);
  EXPECT_EQ(a.topology.nics(), b.topology.nics());
  EXPECT_EQ(a.topology.peer_shape.kind, b.topology.peer_shape.kind);
  for (const HardwareQuantity& quantity : hardware_quantities())
    EXPECT_EQ(quantity.get({.name = "a", .node = a, .stack = {}}),
              quantity.get({.name = "b", .node = b, .stack = {}}))
        << a.name << quantity.name;
}

TEST(HardwareTemplate, ReadsBackAsEveryKindOfTheCatalogue) {
  for (const HwProfile& node : node_catalogue()) {
    const std::string text = hardware_template(node.name);
    EXPECT_EQ(text.find("\"base\""), std::string::npos) << node.name;
    expect_same(node, parse_hw_profile(text, "t.json"));
    EXPECT_EQ(hardware_template(node.name + "x4"), text);
  }
}

TEST(HardwareTemplate, OfANamedClusterIsItsFile) {
  for (const Cluster& cluster : cluster_catalogue()) {
    const std::string text = hardware_template(cluster.name);
    const Cluster again = read_cluster_file(parse_json(text, "t.json"), text, "");
    EXPECT_EQ(again.name, cluster.name);
    EXPECT_EQ(again.nodes, cluster.nodes);
    EXPECT_EQ(again.node.name, cluster.node.name);
    EXPECT_EQ(again.domain(), cluster.domain());
    EXPECT_EQ(again.network.oversubscription, cluster.network.oversubscription);
  }
  EXPECT_THAT(message_of([] { hardware_template("dgx2{nvme=x2}"); }), HasSubstr("no settings"));
}

}  // namespace
}  // namespace zplan
