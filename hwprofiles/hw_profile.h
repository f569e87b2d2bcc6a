// What a node can do: capacities, rates, achieved fractions and latencies, each with its source.
// File format "zplan.hw/1"; the catalogue hwprofiles/catalogue/*.json is compiled into the library.
// Here live all efficiency constants; nothing measured enters a Plan or a Program.
//
// Fits iff placed bytes + reserve <= usable memory; the reserve is what the placement cannot see
// (context, communicators, library workspaces; on the host the system, processes and page cache).
// Time of an op on a device, to be used by planner/cost:
//   gemm       flop / (peak(dtype) x gemm_efficiency) + gemm_overhead
//   attention  flop / (peak(dtype) x attention_efficiency)
//   streaming  bytes / (memory_bandwidth x memory_efficiency)
//   launch     launch_overhead of host time each, at most launch_queue_depth ahead;
//              graph_launch_overhead each of what is launched as graphs
// Collectives measured on the node may stand beside these values (measured_curves.h).
// Left out: clocks under power limits, shape-dependent efficiency tables, several node kinds in one
// cluster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/collective_profile.h"
#include "hwprofiles/core_profile.h"
#include "hwprofiles/network.h"
#include "hwprofiles/stack.h"
#include "hwprofiles/topology.h"
#include "planner/core/units.h"

namespace zplan {

class KernelTables;

// Formats a device can have a peak for.
inline constexpr std::string_view kDTypeNames[] = {"fp64", "fp32", "fp16", "bf16", "fp8", "fp4"};

// Formats of codes with scales, in which products run at the peak of another name: how long their
// blocks are changes no rate of the tensor cores.
std::string_view peak_of_format(std::string_view format);
// Returns whether operands have to be cast to the format, which no tensor of a model has.
constexpr bool is_of_codes(std::string_view format) {
  return format.starts_with("fp8") || format == "mxfp8" || format == "nvfp4";
}

struct DeviceProfile {
  std::string name;  // "V100-SXM3-32GB"
  Bytes memory{};    // usable, as the device reports it
  std::map<std::string, FlopsPerSecond, std::less<>>
      peaks;  // dense, by "fp64" "fp32" "fp16" "bf16" "fp8" "fp4"
  BytesPerSecond memory_bandwidth{};
  double gemm_efficiency = 0;
  double attention_efficiency = 0;
  double memory_efficiency = 0;
  Seconds gemm_overhead{};          // fixed device time per matrix product
  Seconds launch_overhead{};        // host time per launched op
  Seconds graph_launch_overhead{};  // host time per op of a graph; not given: launch_overhead
  int launch_queue_depth = 0;       // launches the host may run ahead
  Seconds copy_latency{};           // fixed time of one host <-> device copy
  bool peer_access = true;          // devices of a node reach each other's memory
  bool peer_sums = true;            // switches between them may add up
  int sm_count = 0;                 // streaming multiprocessors; 0: products are not cut into tiles
  // Time of products at settled clocks over what the tables say: over that of short bursts where
  // there are no rows of training.
  double sustained = 1;
  std::string kernel_tables;  // measured ones, "a100_sxm" (hwprofiles/kernels); empty: none
  std::shared_ptr<const KernelTables> tables;            // of that name
  std::shared_ptr<const CollectiveProfile> collectives;  // none: ideal rings
  std::string kernel_set;  // default: "cuda.sm70.fp16", "cuda.sm80.bf16", "cpu.f32"
  Bytes reserve_context{};
  Bytes reserve_communicators{};
  Bytes reserve_workspace{};

  // Throws Error naming the device when it has no such format (bf16 on V100).
  FlopsPerSecond peak(std::string_view dtype) const;
  bool supports(std::string_view dtype) const;
  Bytes reserve() const { return reserve_context + reserve_communicators + reserve_workspace; }
};

struct HostProfile {
  Bytes memory{};                     // installed, whole node
  Bytes reserve{};                    // not available to a job, whole node
  BytesPerSecond memory_bandwidth{};  // reads + writes, whole node
  double cpu_memory_efficiency = 0;   // fraction a streaming CPU loop (Adam) reaches of it
  int cpu_cores = 0;                  // physical, whole node
  FlopsPerSecond core_flops{};        // fp32 peak of one core

  Bytes usable() const { return memory - reserve; }
};

// The drives of a node together; drives == 0: none.
struct NvmeProfile {
  int drives = 0;
  Bytes capacity{};              // usable, whole node
  BytesPerSecond drive_read{};   // per drive
  BytesPerSecond drive_write{};  // per drive
  double efficiency = 1;         // share of these that large transfers of a program reach
  // Share of its rate at which a drive reads while it writes at its full rate; 0: one or the other.
  double read_beside_write = 0;
  int queue_depth = 0;  // requests in flight per drive
  Bytes block{};        // size of one request
  Seconds latency{};    // of one request on an idle drive

  BytesPerSecond read_bandwidth() const { return drive_read * drives; }
  BytesPerSecond write_bandwidth() const { return drive_write * drives; }
};

// Fixed time of a communication.
struct LatencyProfile {
  Seconds p2p_intra{};
  Seconds p2p_inter{};
  Seconds collective_intra{};  // start of a collective on devices without a CollectiveProfile
  // A collective over nodes adds these: once, and per message of LL in a tree and in a ring [NCCL].
  Seconds collective_inter{};
  Seconds per_log2_nodes{};
  Seconds per_node{};
  // What each message between nodes takes longer than over InfiniBand verbs. A transport that has
  // some is one without ordered 128-byte lines: of the library's protocols it carries Simple alone
  // [OFI-NCCL].
  Seconds transport{};
};

// Where one number of the profile comes from.
struct ValueSource {
  std::string pointer;  // "/device/gemm_efficiency"
  std::string value;    // as written, "0.56"
  std::string source;   // datasheet | measured | fitted | assumed
  std::string ref;
};

struct HwProfile {
  std::string name;         // "dgx2"
  std::string description;  // one line
  std::vector<std::string> aliases;
  int devices_per_node = 0;
  int whole_devices = 0;  // of the whole node, where devices_per_node is the part that is used
  DeviceProfile device;
  HostProfile host;
  NvmeProfile nvme;
  LatencyProfile latency;
  TopologySpec topology;
  std::shared_ptr<const CoreProfile>
      cores;                         // of devices that are cores of the host; none: not measured
  std::vector<ValueSource> sources;  // in file order
  std::string hash;                  // of the file's text, for reports
  std::string file;                  // that it was read from; empty: built in

  // These stand in one source, as those of Plan do.
  HwProfile();
  HwProfile(const HwProfile&);
  HwProfile(HwProfile&&) noexcept;
  HwProfile& operator=(const HwProfile&);
  HwProfile& operator=(HwProfile&&) noexcept;
  ~HwProfile();
};

// Nodes of one kind among others.
struct NodeGroup {
  std::string node;  // its kind
  int devices_per_node = 1, nodes = 1;
};

struct Cluster {
  std::string name;  // "dgx2x32"
  HwProfile node;
  int nodes = 1;
  StackRates stack{};    // of the software that runs on it
  StackMemory memory{};  // what that software holds
  double headroom = 0;   // share of a device's memory that plans leave free
  NetworkSpec network{};
  int threads_per_rank = 1;            // inside kernels of devices that are cores
  std::vector<NodeGroup> groups{};     // where the nodes are not alike; `node` is of the first
  int fast_link_domain = 0;            // devices that share the peer link; 0: those of a node
  std::vector<ValueSource> sources{};  // of what the cluster adds to the node
  // What was made of the name that was typed, where that is not the cluster's: a sentence each.
  std::vector<std::string> understood{};
  int devices() const {
    int all = groups.empty() ? nodes * node.devices_per_node : 0;
    for (const NodeGroup& group : groups) all += group.nodes * group.devices_per_node;
    return all;
  }
  int domain() const { return fast_link_domain > 0 ? fast_link_domain : node.devices_per_node; }
  // Devices that meet without the network: those of a node, of a domain that is larger.
  int island() const { return std::max(domain(), node.devices_per_node); }
};

inline constexpr int kMaxNodes = 100'000;

// "dgx2", "DGX2x32", "dgx-h100x1024-2to1", "path/to/node.json", "path/to/node.jsonx4",
// "path/to/cluster.json"; a file when it contains '/' or ".json"; else what people type, "16xH100"
// (cluster_spelling.h). Throws Error naming the nearest kinds, and of a cluster of several kinds of
// nodes, for which no plan can be made.
Cluster load_cluster(std::string_view name_or_path);
// The same, to be looked at: of several kinds of nodes as well.
Cluster load_any_cluster(std::string_view name_or_path);
// The name by which plans and files know the cluster that a text means: "16xH100" -> "dgx-h100x2".
// A path, and what means nothing, are as they were typed.
std::string catalogue_name(std::string_view name_or_path);

// Reads one "zplan.hw/1" document; `file_name` stands for it in messages.
HwProfile parse_hw_profile(std::string text, std::string file_name);

// All built-in node kinds, by name.
std::vector<HwProfile> node_catalogue();

}  // namespace zplan
