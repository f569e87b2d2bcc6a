// What makers and providers publish of the nodes that rest on a data sheet and another node:
// NVIDIA's and AMD's data sheets; Amazon EC2 instance types (accelerated computing); Google Cloud,
// GPU machine types; Microsoft Azure, sizes of virtual machines. Memory of GPUs as their labels say
// it, of which devices report 89 to 100 %.
#include <gtest/gtest.h>

#include <set>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/node_file.h"

namespace zplan {
namespace {

struct Figures {
  const char* name;
  int gpus;
  double gpu_gb;              // the label
  double tflop_per_s;         // dense, 16-bit with fp32 accumulation
  double gpu_gb_per_s;        // of its memory
  double peer_gb_per_s;       // per direction; 0: none
  double network_gbit_per_s;  // of a node, per direction
  double host_gib;
};

constexpr Figures kFigures[] = {
    {"dgx-a100-40", 8, 40, 312, 1555, 300, 1600, 1024},
    {"a100-pcie-40", 8, 40, 312, 1555, 0, 800, 2048},
    {"a100-pcie-80", 8, 80, 312, 1935, 0, 800, 2048},
    {"dgx-h200", 8, 141, 989.4, 4800, 450, 3200, 2048},
    {"dgx-b200", 8, 180, 2250, 8000, 900, 3200, 2048},
    {"gb200-tray", 4, 186, 2500, 8000, 900, 1600, 960 / 1.073741824},
    {"l40s-server", 8, 48, 362, 864, 0, 800, 768},
    {"mi300x", 8, 192, 1307.4, 5300, 448, 3200, 2048},
    {"titan-rtx-workstation", 4, 24, 130.5, 672, 0, 25, 128},
    {"rtx3090-workstation", 4, 24, 71.2, 936.2, 0, 25, 256},
    {"rtx4090-workstation", 4, 24, 165.15, 1008, 0, 25, 256},
    {"rtx-pro-6000-workstation", 4, 96, 504, 1792, 0, 25, 512},
    {"aws-p4d", 8, 40, 312, 1555, 300, 400, 1152},
    {"aws-p4de", 8, 80, 312, 2039, 300, 400, 1152},
    {"aws-p5", 8, 80, 989.4, 3350, 450, 3200, 2048},
    {"gcp-a2-highgpu", 8, 40, 312, 1555, 300, 100, 680 / 1.073741824},
    {"gcp-a2-ultragpu", 8, 80, 312, 2039, 300, 100, 1360 / 1.073741824},
    {"gcp-a3-highgpu", 8, 80, 989.4, 3350, 450, 800, 1872 / 1.073741824},
    {"gcp-a3-megagpu", 8, 80, 989.4, 3350, 450, 1600, 1872 / 1.073741824},
    {"azure-nd-a100-v4", 8, 40, 312, 1555, 300, 1600, 900},
    {"azure-ndm-a100-v4", 8, 80, 312, 2039, 300, 1600, 1900},
    {"azure-nd-h100-v5", 8, 80, 989.4, 3350, 450, 3200, 1900},
};

std::string_view sixteen_bit(const DeviceProfile& device) {
  return device.supports("bf16") ? "bf16" : "fp16";
}

TEST(NodeFigures, AreThePublishedOnes) {
  constexpr double kGibibyte = 1 << 30, kGiga = 1e9, kTera = 1e12;
  for (const Figures& figures : kFigures) {
    SCOPED_TRACE(figures.name);
    const HwProfile node = load_cluster(figures.name).node;
    const TopologySpec& wires = node.topology;
    EXPECT_EQ(node.devices_per_node, figures.gpus);
    const double label = figures.gpu_gb * kGibibyte;
    EXPECT_LE(static_cast<double>(node.device.memory.value), label * 1.0001);
    EXPECT_GE(static_cast<double>(node.device.memory.value), label * 0.92);
    EXPECT_NEAR(node.device.peak(sixteen_bit(node.device)).value, figures.tflop_per_s * kTera, 1);
    EXPECT_NEAR(node.device.memory_bandwidth.value, figures.gpu_gb_per_s * kGiga, 1);
    EXPECT_NEAR(wires.gpu_peer ? wires.gpu_peer->capacity.value : 0, figures.peer_gb_per_s * kGiga,
                1);
    EXPECT_NEAR(wires.nics() * wires.nic.capacity.value, figures.network_gbit_per_s * kGiga / 8, 1);
    EXPECT_NEAR(static_cast<double>(node.host.memory.value), figures.host_gib * kGibibyte,
                0.001 * figures.host_gib * kGibibyte);
  }
}

TEST(NodeFigures, AreThereForEveryNodeThatRestsOnAnother) {
  std::set<std::string> known;
  for (const Figures& figures : kFigures) known.insert(figures.name);
  for (const HwProfile& node : node_catalogue())
    EXPECT_NE(known.contains(node.name), has_whole_profile(node.name)) << node.name;
}

// NVIDIA GB200 NVL72 datasheet: 72 GPUs, 36 Grace, 17 TB of LPDDR5X in one NVLink domain.
TEST(NodeFigures, ARackIsOneDomain) {
  const Cluster rack = load_cluster("gb200-nvl72");
  EXPECT_EQ(rack.devices(), 72);
  EXPECT_EQ(rack.domain(), 72);
  EXPECT_EQ(rack.nodes * rack.node.host.cpu_cores, 36 * 72);
  EXPECT_NEAR(static_cast<double>(rack.nodes * rack.node.host.memory.value), 17e12, 0.3e12);
}

}  // namespace
}  // namespace zplan
