// What makers and providers publish of the nodes that rest on a data sheet and another node:
// NVIDIA's and AMD's data sheets; Amazon EC2 instance types (accelerated computing); Google Cloud,
// GPU machine types and TPU documentation; AWS Neuron documentation; Microsoft Azure, sizes of
// virtual machines; the Frontier User Guide. Memory of GPUs as their labels say
// it, of which devices report 89 to 100 %.
#include <gtest/gtest.h>

#include <set>
#include <utility>

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
    {"aws-p5e", 8, 141, 989.4, 4800, 450, 3200, 2048},
    {"aws-p5en", 8, 141, 989.4, 4800, 450, 3200, 2048},
    {"aws-p6-b200", 8, 180, 2250, 8000, 900, 3200, 2048},
    {"azure-nd-h200-v5", 8, 141, 989.4, 4800, 450, 3200, 1850},
    {"gcp-a3-ultragpu", 8, 141, 989.4, 4800, 450, 3200, 2952 / 1.073741824},
    {"gcp-a4-highgpu", 8, 180, 2250, 8000, 900, 3200, 3968 / 1.073741824},
    {"gcp-a4x-highgpu", 4, 186, 2500, 8000, 900, 1600, 884 / 1.073741824},
    {"gcp-g2", 8, 24, 121, 300, 0, 100, 384 / 1.073741824},
    {"aws-g5", 8, 24, 70, 600, 0, 100, 768},
    {"dgx1", 8, 16, 125, 900, 150, 400, 512},
    {"dgx-b300", 8, 288, 2250, 8000, 900, 6400, 2048},
    {"gb300-tray", 4, 288, 2500, 8000, 900, 3200, 960 / 1.073741824},
    {"gh200", 1, 96, 989.4, 4000, 0, 400, 480 / 1.073741824},
    {"hgx-h20", 8, 96, 148, 4000, 450, 3200, 2048},
    {"hgx-h800", 8, 80, 989.4, 3350, 200, 3200, 2048},
    {"mi325x", 8, 256, 1307.4, 6000, 448, 3200, 2048},
    {"mi355x", 8, 288, 2500, 8000, 537.6, 3200, 2048},
    {"frontier", 4, 128, 383, 3280, 350, 800, 512},
    {"rtx5090-workstation", 4, 32, 209.5, 1792, 0, 25, 512},
    {"rtx-a6000-workstation", 4, 48, 154.8, 768, 0, 25, 256},
    {"tpu-v5p", 4, 95, 459, 2765, 600, 200, 448 / 1.073741824},
    {"tpu-v6e", 8, 32, 918, 1638, 400, 400, 1440 / 1.073741824},
    {"tpu-v7x", 4, 192, 2307, 7380, 600, 400, 960 / 1.073741824},
    {"aws-trn2", 16, 96, 667, 2900, 640, 3200, 2048},
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
  for (const char* name : {"gb200-nvl72", "gb300-nvl72"}) {
    const Cluster rack = load_cluster(name);
    EXPECT_EQ(rack.devices(), 72);
    EXPECT_EQ(rack.domain(), 72);
    EXPECT_EQ(rack.nodes * rack.node.host.cpu_cores, 36 * 72);
    EXPECT_NEAR(static_cast<double>(rack.nodes * rack.node.host.memory.value), 17e12, 0.3e12);
  }
}

TEST(NodeFigures, SlicesOfATorusAreOneDomain) {
  for (const auto& [name, chips] :
       {std::pair{"tpu-v5p-128", 64}, {"tpu-v6e-256", 256}, {"tpu-v7x-64", 64}}) {
    const Cluster slice = load_cluster(name);
    EXPECT_EQ(slice.devices(), chips) << name;
    EXPECT_EQ(slice.domain(), chips) << name;
  }
}

// Names as providers print them.
TEST(NodeFigures, ProvidersNamesAreKnown) {
  for (const auto& [alias, name] : {std::pair{"p5e.48xlarge", "aws-p5e"},
                                    {"p5en.48xlarge", "aws-p5en"},
                                    {"p6-b200.48xlarge", "aws-p6-b200"},
                                    {"trn2.48xlarge", "aws-trn2"},
                                    {"nd-h200-v5", "azure-nd-h200-v5"},
                                    {"Standard_ND96isr_H200_v5", "azure-nd-h200-v5"},
                                    {"a3-ultragpu-8g", "gcp-a3-ultragpu"},
                                    {"a4-highgpu-8g", "gcp-a4-highgpu"},
                                    {"a4x-highgpu-4g", "gcp-a4x-highgpu"},
                                    {"g2-standard-96", "gcp-g2"},
                                    {"ct5p-hightpu-4t", "tpu-v5p"},
                                    {"ironwood", "tpu-v7x"},
                                    {"dgx-1", "dgx1"}})
    EXPECT_EQ(load_cluster(alias).node.name, name);
}

// Between the others no switch adds up, so that their all-reduces are rings.
TEST(NodeFigures, OnlySwitchesOfNvidiaAddUp) {
  for (const char* name :
       {"mi300x", "mi325x", "mi355x", "frontier", "tpu-v5p", "tpu-v6e", "tpu-v7x", "aws-trn2"})
    EXPECT_EQ(load_cluster(name).node.device.collectives->constants.nvls.value, 0) << name;
  for (const char* name : {"dgx-h100", "hgx-h20", "hgx-h800", "gb300-nvl72"})
    EXPECT_GT(load_cluster(name).node.device.collectives->constants.nvls.value, 0) << name;
}

}  // namespace
}  // namespace zplan
