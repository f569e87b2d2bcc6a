#include "hwprofiles/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "hwprofiles/build_cluster.h"
#include "hwprofiles/cluster_name.h"
#include "hwprofiles/measured_rates.h"
#include "hwprofiles/sourced_object.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

using Known = std::optional<double>;

Known positive(double value) { return value > 0 ? Known(value) : std::nullopt; }

// ---- sizes and rates that are one member ------------------------------------------------------

// Of a member of a Cluster, by a function that finds it.
template <auto kMember>
Known get(const Cluster& cluster) {
  return positive(static_cast<double>(kMember(cluster).value));
}
template <auto kMember>
void set(Cluster& cluster, double value) {
  auto& member = kMember(cluster);
  using Number = decltype(member.value);
  if constexpr (std::is_integral_v<Number>) {
    member.value = static_cast<Number>(std::llround(value));
  } else {
    member.value = value;
  }
}

constexpr auto kGpuMemory = [](auto& c) -> auto& { return c.node.device.memory; };
constexpr auto kCpuMemory = [](auto& c) -> auto& { return c.node.host.memory; };
constexpr auto kNvmeCapacity = [](auto& c) -> auto& { return c.node.nvme.capacity; };
constexpr auto kCorePeak = [](auto& c) -> auto& { return c.node.host.core_flops; };
constexpr auto kSocket = [](auto& c) -> auto& { return c.node.topology.socket_peer.capacity; };
constexpr auto kUplink = [](auto& c) -> auto& { return c.node.topology.pcie_uplink.capacity; };

// Latencies may be nothing.
template <auto kMember>
Known get_time(const Cluster& cluster) {
  return kMember(cluster).value;
}
constexpr auto kKernelOverhead = [](auto& c) -> auto& { return c.node.device.gemm_overhead; };
constexpr auto kLaunch = [](auto& c) -> auto& { return c.node.device.launch_overhead; };
constexpr auto kGraphLaunch = [](auto& c) -> auto& { return c.node.device.graph_launch_overhead; };
constexpr auto kCopyLatency = [](auto& c) -> auto& { return c.node.device.copy_latency; };
constexpr auto kDriveLatency = [](auto& c) -> auto& { return c.node.nvme.latency; };
constexpr auto kP2p = [](auto& c) -> auto& { return c.node.latency.p2p_intra; };
constexpr auto kP2pNetwork = [](auto& c) -> auto& { return c.node.latency.p2p_inter; };
constexpr auto kCrossing = [](auto& c) -> auto& { return c.node.latency.collective_inter; };
constexpr auto kTreeLevel = [](auto& c) -> auto& { return c.node.latency.per_log2_nodes; };
constexpr auto kRingHop = [](auto& c) -> auto& { return c.node.latency.per_node; };

// ---- several members in proportion ------------------------------------------------------------

void scale(BytesPerSecond& rate, double factor) { rate = rate * factor; }
void scale(LinkClass& link, double factor) { scale(link.capacity, factor); }

std::string plain_name(const Cluster& cluster) {
  return cluster.nodes == 1 ? cluster.node.name
                            : fmt::format("{}x{}", cluster.node.name, cluster.nodes);
}

Known nodes(const Cluster& cluster) { return cluster.nodes; }
void set_nodes(Cluster& cluster, double value) {
  const bool is_plain = cluster.name == plain_name(cluster);
  cluster.nodes = static_cast<int>(value);
  if (is_plain) cluster.name = plain_name(cluster);
}

// That of its 16-bit products, else of the narrowest format that it has.
std::string_view usual_format(const DeviceProfile& device) {
  for (const std::string_view format : {"bf16", "fp16", "fp32", "fp64"})
    if (device.supports(format)) return format;
  return "";
}
Known peak(const Cluster& cluster) {
  const DeviceProfile& device = cluster.node.device;
  const std::string_view format = usual_format(device);
  return format.empty() ? std::nullopt : positive(device.peak(format).value);
}
void set_peak(Cluster& cluster, double value) {
  const double factor = value / *peak(cluster);
  for (auto& [format, rate] : cluster.node.device.peaks) rate = rate * factor;
  mark_changed(cluster.node.device);
}

Known device_memory_rate(const Cluster& cluster) {
  return positive(cluster.node.device.memory_bandwidth.value);
}
void set_device_memory_rate(Cluster& cluster, double value) {
  cluster.node.device.memory_bandwidth = {value};
  mark_changed(cluster.node.device);
}

Known host_memory_rate(const Cluster& cluster) {
  return positive(cluster.node.host.memory_bandwidth.value);
}
void set_host_memory_rate(Cluster& cluster, double value) {
  scale(cluster.node.topology.dram, value / *host_memory_rate(cluster));
  cluster.node.host.memory_bandwidth = {value};
}

Known cores(const Cluster& cluster) { return positive(cluster.node.host.cpu_cores); }
void set_cores(Cluster& cluster, double value) {
  cluster.node.host.cpu_cores = static_cast<int>(value);
}

Known reading(const Cluster& cluster) { return positive(cluster.node.nvme.read_bandwidth().value); }
void set_reading(Cluster& cluster, double value) {
  NvmeProfile& nvme = cluster.node.nvme;
  nvme.drive_read = {value / nvme.drives};
  cluster.node.topology.nvme_read.capacity = nvme.drive_read;
}
Known writing(const Cluster& cluster) {
  return positive(cluster.node.nvme.write_bandwidth().value);
}
void set_writing(Cluster& cluster, double value) {
  NvmeProfile& nvme = cluster.node.nvme;
  nvme.drive_write = {value / nvme.drives};
  cluster.node.topology.nvme_write.capacity = nvme.drive_write;
}
void set_drives(Cluster& cluster, double value) {
  const double factor = value / *reading(cluster);
  set_writing(cluster, *writing(cluster) * factor);
  set_reading(cluster, value);
}

bool has_peer_link(const Cluster& cluster) { return cluster.node.topology.gpu_peer.has_value(); }

Known gpu_pcie(const Cluster& cluster) {
  return positive(cluster.node.topology.gpu_pcie.capacity.value);
}
void set_gpu_pcie(Cluster& cluster, double value) {
  const double factor = value / *gpu_pcie(cluster);
  scale(cluster.node.topology.gpu_pcie, factor);
  if (!has_peer_link(cluster)) scale_collectives(cluster.node.device, {.moving = factor});
}
void set_pcie(Cluster& cluster, double value) {
  scale(cluster.node.topology.pcie_uplink, value / *gpu_pcie(cluster));
  set_gpu_pcie(cluster, value);
}

Known peers(const Cluster& cluster) {
  return has_peer_link(cluster) ? positive(cluster.node.topology.gpu_peer->capacity.value)
                                : std::nullopt;
}
void set_peers(Cluster& cluster, double value) {
  const double factor = value / *peers(cluster);
  scale(*cluster.node.topology.gpu_peer, factor);
  scale_collectives(cluster.node.device, {.moving = factor});
}

Known network(const Cluster& cluster) {
  const TopologySpec& wires = cluster.node.topology;
  return wires.nics() > 0 ? positive(wires.nic.capacity.value) : std::nullopt;
}
void set_network(Cluster& cluster, double value) {
  const double factor = value / *network(cluster);
  scale(cluster.node.topology.nic, factor);
  scale(cluster.node.topology.nic_pcie, factor);
  scale_collectives_over_nodes(cluster.node.device, factor);
  if (!cluster.network.rules) return;
  NetworkRules rules = *cluster.network.rules;
  for (LinkRule& rule : rules.links)
    if (rule.rate) scale(*rule.rate, factor);
  cluster.network.rules = std::make_shared<const NetworkRules>(std::move(rules));
}

// [assumed] Leaf switches of the usual network of GPUs: 32 nodes, a switch for each of their ports,
// as of 64 ports, half of which go up.
constexpr int kUsualLeaf = 32;
Known if_networked(const Cluster& cluster, double value) {
  const bool counts = cluster.node.topology.nics() > 0 && !cluster.network.rules;
  return counts ? Known(value) : std::nullopt;
}
void add_leaves(Cluster& cluster) {
  if (cluster.network.has_leaves()) return;
  cluster.network.nodes_per_leaf = kUsualLeaf;
  cluster.network.rails = true;
}
Known leaf_nodes(const Cluster& cluster) {
  return cluster.network.has_leaves() ? Known(cluster.network.nodes_per_leaf) : std::nullopt;
}
void set_leaf_nodes(Cluster& cluster, double value) {
  add_leaves(cluster);
  cluster.network.nodes_per_leaf = static_cast<int>(value);
}
Known usual_leaf_nodes(const Cluster& cluster) { return if_networked(cluster, kUsualLeaf); }

Known oversubscription(const Cluster& cluster) {
  return cluster.network.has_leaves() ? Known(cluster.network.oversubscription) : std::nullopt;
}
void set_oversubscription(Cluster& cluster, double value) {
  add_leaves(cluster);
  cluster.network.oversubscription = value;
}
Known usual_oversubscription(const Cluster& cluster) { return if_networked(cluster, 1); }

Known gpus_per_node(const Cluster& cluster) { return cluster.node.devices_per_node; }
void set_gpus_per_node(Cluster& cluster, double value) {
  resize_node(cluster.node, static_cast<int>(value));
}

Known collective_start(const Cluster& cluster) {
  const CollectiveProfile* const measured = cluster.node.device.collectives.get();
  return measured != nullptr ? positive(measured->constants.low_base.value)
                             : Known(cluster.node.latency.collective_intra.value);
}
void set_collective_start(Cluster& cluster, double value) {
  if (cluster.node.device.collectives == nullptr) {
    cluster.node.latency.collective_intra = {value};
    return;
  }
  scale_collectives(cluster.node.device, {.start = value / *collective_start(cluster)});
}

// ---- the table --------------------------------------------------------------------------------

using enum QuantityUnit;
constexpr HardwareQuantity kQuantities[] = {
    {"nodes", "", kCount, "nodes of the cluster", nodes, set_nodes},
    {"gpus_per_node", "", kCount, "GPUs of a node, on the same host", gpus_per_node,
     set_gpus_per_node},
    {"gpu.memory", "", kBytes, "memory of a GPU", get<kGpuMemory>, set<kGpuMemory>},
    {"gpu.bandwidth", "hbm", kBytesPerSecond, "rate of a GPU's memory", device_memory_rate,
     set_device_memory_rate},
    {"gpu.peak", "", kFlopsPerSecond, "peak of a GPU in its 16-bit format, others in proportion",
     peak, set_peak},
    {"gpu.kernel_overhead", "", kSeconds, "start and end of a kernel on a GPU",
     get_time<kKernelOverhead>, set<kKernelOverhead>},
    {"gpu.launch", "", kSeconds, "host time of a launch", get_time<kLaunch>, set<kLaunch>},
    {"gpu.graph_launch", "", kSeconds, "host time of an operation of a graph",
     get_time<kGraphLaunch>, set<kGraphLaunch>},
    {"gpu.copy_latency", "", kSeconds, "start of a copy between GPU and host",
     get_time<kCopyLatency>, set<kCopyLatency>},
    {"cpu.memory", "", kBytes, "memory of a node's host", get<kCpuMemory>, set<kCpuMemory>},
    {"cpu.bandwidth", "dram", kBytesPerSecond, "rate of a node's host memory", host_memory_rate,
     set_host_memory_rate},
    {"cpu.cores", "", kCount, "cores of a node's host", cores, set_cores},
    {"cpu.core_peak", "", kFlopsPerSecond, "fp32 peak of a core", get<kCorePeak>, set<kCorePeak>},
    {"nvme", "", kBytesPerSecond, "what a node's drives read together, writes in proportion",
     reading, set_drives},
    {"nvme.read", "", kBytesPerSecond, "what a node's drives read together", reading, set_reading},
    {"nvme.write", "", kBytesPerSecond, "what a node's drives write together", writing,
     set_writing},
    {"nvme.capacity", "nvme.memory", kBytes, "space on a node's drives", get<kNvmeCapacity>,
     set<kNvmeCapacity>},
    {"nvme.latency", "", kSeconds, "start of a request of a drive",
     [](const Cluster& c) { return c.node.nvme.drives > 0 ? get_time<kDriveLatency>(c) : Known(); },
     set<kDriveLatency>},
    {"pcie", "", kBytesPerSecond, "PCIe of a GPU, per direction, uplinks in proportion", gpu_pcie,
     set_pcie},
    {"pcie.gpu", "", kBytesPerSecond, "PCIe of a GPU alone, per direction", gpu_pcie, set_gpu_pcie},
    {"pcie.uplink", "", kBytesPerSecond, "PCIe from a switch to its socket, per direction",
     get<kUplink>, set<kUplink>},
    {"peer", "nvlink", kBytesPerSecond, "peer links of a GPU together, per direction", peers,
     set_peers},
    {"socket", "", kBytesPerSecond, "link between the sockets of a node, per direction",
     get<kSocket>, set<kSocket>},
    {"network", "nic", kBytesPerSecond, "a network port of a node, per direction", network,
     set_network},
    {"network.oversubscription", "", kFactor, "what leaves a leaf switch over its uplinks",
     oversubscription, set_oversubscription, usual_oversubscription},
    {"network.nodes_per_leaf", "", kCount, "nodes that share leaf switches", leaf_nodes,
     set_leaf_nodes, usual_leaf_nodes},
    {"latency.p2p", "", kSeconds, "start of a send within a node", get_time<kP2p>, set<kP2p>},
    {"latency.p2p_network", "", kSeconds, "start of a send to another node", get_time<kP2pNetwork>,
     set<kP2pNetwork>},
    {"latency.collective", "", kSeconds, "start of a collective within a node", collective_start,
     set_collective_start},
    {"latency.collective_network", "", kSeconds, "start of a collective over nodes, on top",
     get_time<kCrossing>, set<kCrossing>},
    {"latency.tree_level", "", kSeconds, "each level of a tree over nodes", get_time<kTreeLevel>,
     set<kTreeLevel>},
    {"latency.ring_hop", "", kSeconds, "each hop of a ring between nodes", get_time<kRingHop>,
     set<kRingHop>},
};

// Other words that names may begin with.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {{"device.", "gpu."},
                                                                         {"fabric.", "network."}};

std::string usual_words(std::string_view typed) {
  for (const auto& [other, usual] : kOtherWords)
    if (typed.starts_with(other)) return fmt::format("{}{}", usual, typed.substr(other.size()));
  return std::string(typed);
}

const HardwareQuantity* find(std::string_view typed) {
  const std::string name = usual_words(typed);
  for (const HardwareQuantity& quantity : kQuantities)
    if (name == quantity.name || (!name.empty() && name == quantity.also)) return &quantity;
  return nullptr;
}

// ---- values -----------------------------------------------------------------------------------

Known parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

template <typename Parsed>
Known value_of(const Parsed& parsed) {
  return parsed ? Known(static_cast<double>(parsed->value)) : std::nullopt;
}

Known parse_value(QuantityUnit unit, std::string_view text) {
  switch (unit) {
    case kBytes:
      return value_of(parse_bytes(text));
    case kBytesPerSecond:
      return value_of(parse_bytes_per_second(text));
    case kFlopsPerSecond:
      return value_of(parse_flops_per_second(text));
    case kSeconds:
      return value_of(parse_seconds(text));
    case kCount:
    case kFactor:
      return parse_number(text);
  }
  ZPLAN_ASSERT(false);
  return std::nullopt;
}

std::string_view expected(QuantityUnit unit) {
  constexpr std::string_view kExpected[] = {
      kBytesExpected,   kBytesPerSecondExpected,    kFlopsPerSecondExpected,
      kSecondsExpected, "a whole number such as 4", "a number from 1 such as 2.5"};
  return kExpected[static_cast<std::size_t>(unit)];
}

// Of a node with so many GPUs.
std::string_view fault_of_size(const Cluster& cluster, double value) {
  const double now = cluster.node.devices_per_node;
  if (value == now) return "";
  if (cluster.node.cores != nullptr) return "the cores that were measured";
  if (value > kMaxParts) return "at most 1024";
  // The first GPUs of a mesh keep the links among them.
  const PeerKind peers = cluster.node.topology.peer_shape.kind;
  if (peers == PeerKind::kTorus || (peers != PeerKind::kSwitch && value > now))
    return "as many as its peer links join";
  if (cluster.fast_link_domain > 0) return "as many as the domain of its peer links is made of";
  return "";
}

// What no cluster can have, or this one not beside what it keeps free.
std::string_view fault_of(const HardwareQuantity& quantity, double value, const Cluster& cluster) {
  constexpr double kMostCores = 100'000;
  const bool is_whole = value == std::floor(value);
  const auto bytes = [&] { return Bytes{static_cast<std::int64_t>(std::min(value, 9e18))}; };
  if (quantity.unit == kCount && (!is_whole || value < 1)) return "a whole number from 1";
  if (quantity.name == "nodes" && value > kMaxNodes) return "at most 100,000";
  if (quantity.unit == kCount && value > kMostCores) return "at most 100,000";
  if (quantity.unit == kFactor && value < 1) return "a number from 1";
  if (quantity.unit != kSeconds && !(value > 0)) return "more than nothing";
  if (quantity.name == "gpus_per_node") return fault_of_size(cluster, value);
  if (quantity.name == "gpu.memory" && bytes() <= cluster.node.device.reserve())
    return "more than the reserve of the device";
  if (quantity.name == "cpu.memory" && bytes() <= cluster.node.host.reserve)
    return "more than the reserve of the host";
  return "";
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What the measured times of cores take no notice of.
bool is_of_cores(std::string_view name) {
  return is_one_of(name, {"gpu.peak", "gpu.bandwidth", "gpu.kernel_overhead", "gpu.copy_latency",
                          "cpu.bandwidth", "pcie", "pcie.gpu", "pcie.uplink", "peer", "socket",
                          "latency.p2p", "latency.collective", "nvme", "nvme.read", "nvme.write"});
}

std::string note_on(const Cluster& cluster, std::string_view name) {
  const DeviceProfile& device = cluster.node.device;
  const CollectiveProfile* const collectives = device.collectives.get();
  const bool has_curves = collectives != nullptr && !collectives->curves.empty();
  const bool over_nodes = collectives != nullptr && collectives->reaches_over_nodes();
  if (cluster.node.cores != nullptr && is_of_cores(name))
    return "this node's cores have measured times, which do not follow where all ranks are in it";
  if (name == "gpu.peak" && device.tables)
    return fmt::format("measured products and attention ({}) are taken to follow the peak",
                       device.kernel_tables);
  if (name == "gpu.bandwidth" && device.tables)
    return fmt::format("measured products and attention ({}) follow where memory limits them",
                       device.kernel_tables);
  if ((name == "peer" || (is_one_of(name, {"pcie", "pcie.gpu"}) && !has_peer_link(cluster))) &&
      has_curves)
    return over_nodes
               ? "measured collectives within a node are taken to follow but for their "
                 "start, those over nodes do not"
               : "measured collectives within a node are taken to follow but for their start";
  if (name == "network" && over_nodes)
    return "measured collectives over nodes are taken to follow but for their start";
  if (is_one_of(name, {"latency.collective_network", "latency.tree_level", "latency.ring_hop"}) &&
      over_nodes)
    return "measured collectives over nodes do not follow";
  const double host = std::max(cluster.stack.host_forward, cluster.stack.host_backward);
  if (is_one_of(name, {"gpu.launch", "gpu.graph_launch"}) && host > 0)
    return fmt::format("the stack takes {} of host time per operator itself, the longer counts",
                       format_seconds(Seconds{host}));
  return "";
}

void apply(Cluster& cluster, const QuantityChange& change) {
  const HardwareQuantity& quantity = *change.quantity;
  Known has = quantity.get(cluster);
  if (!has && quantity.usual != nullptr) has = quantity.usual(cluster);
  if (!has) {
    throw_bad_input(
        fmt::format("{}: {} has none ({})", quantity.name, cluster.name, quantity.meaning));
  }
  const double value = change.is_factor ? *has * change.value : change.value;
  const std::string_view fault = fault_of(quantity, value, cluster);
  if (!fault.empty()) {
    throw_bad_input(fmt::format("{}: expected {}, got {}", quantity.name, fault,
                                quantity_words(quantity, value)));
  }
  std::string note = note_on(cluster, quantity.name);
  if (change.is_label)
    note += fmt::format("{}GB of a memory is a label and means GiB", note.empty() ? "" : "; ");
  cluster.sources.push_back({std::string(quantity.name), quantity_words(quantity, value),
                             std::string(kGiven),
                             fmt::format("in place of {}{}{}", quantity_words(quantity, *has),
                                         note.empty() ? "" : "; ", note)});
  quantity.set(cluster, value);
}

}  // namespace

std::span<const HardwareQuantity> hardware_quantities() { return kQuantities; }

bool is_quantity(std::string_view name) { return find(name) != nullptr; }

bool is_layout(std::string_view name) {
  return is_one_of(name, {"nodes", "gpus_per_node", "network.nodes_per_leaf"});
}

const HardwareQuantity& find_quantity(std::string_view name) {
  if (const HardwareQuantity* const found = find(name)) return *found;
  std::vector<std::string> meant;
  for (const HardwareQuantity& quantity : kQuantities) meant.emplace_back(quantity.name);
  for (const HardwareQuantity& quantity : kQuantities)
    if (!quantity.also.empty()) meant.emplace_back(quantity.also);
  throw_bad_input(fmt::format("unknown quantity {}{}", in_quotes(name),
                              nearest_or_page(usual_words(name), meant, "zplan clusters dgx2")));
}

std::string quantity_words(const HardwareQuantity& quantity, double value) {
  switch (quantity.unit) {
    case kBytes:
      return format_bytes({std::llround(std::min(value, 9e18))});
    case kBytesPerSecond:
      return format_rate(BytesPerSecond{value});
    case kFlopsPerSecond:
      return format_rate(FlopsPerSecond{value});
    case kSeconds:
      return format_seconds({value});
    case kCount:
    case kFactor:
      return fmt::format("{}", value);
  }
  ZPLAN_ASSERT(false);
  return "";
}

namespace {

// Memories of GPUs and hosts are sold by a label: one of 128 GB has 128 GiB. What is typed so, as
// it is meant; other values are as they were typed.
std::string meant_value(const HardwareQuantity& quantity, std::string_view typed) {
  const bool is_memory = is_one_of(quantity.name, {"gpu.memory", "cpu.memory"});
  const bool is_label =
      typed.size() > 2 && typed.ends_with('B') &&
      std::string_view("MGTP").find(typed[typed.size() - 2]) != std::string_view::npos;
  if (!is_memory || !is_label) return std::string(typed);
  return fmt::format("{}iB", typed.substr(0, typed.size() - 1));
}

}  // namespace

QuantityChange parse_change(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    throw_bad_input(
        fmt::format("expected a quantity and its value such as nvme=50GB/s or nvme=x2, got {}",
                    in_quotes(text)));
  }
  const HardwareQuantity& quantity = find_quantity(text.substr(0, equals));
  const std::string_view value = text.substr(equals + 1);
  if (value.starts_with('x')) {
    const Known factor = parse_number(value.substr(1));
    if (factor && *factor > 0) return {&quantity, *factor, true};
  } else {
    const std::string meant = meant_value(quantity, value);
    if (const Known given = parse_value(quantity.unit, meant); given && *given >= 0)
      return {&quantity, *given, false, meant != value};
  }
  throw_bad_input(fmt::format("{}: expected {}, or a factor such as x2, got {}", quantity.name,
                              expected(quantity.unit), in_quotes(value)));
}

std::vector<QuantityChange> parse_changes(std::span<const std::string> texts) {
  std::vector<QuantityChange> changes;
  for (const std::string& text : texts) {
    const QuantityChange change = parse_change(text);
    const auto is_same = [&](const QuantityChange& c) { return c.quantity == change.quantity; };
    if (std::any_of(changes.begin(), changes.end(), is_same))
      throw_bad_input(fmt::format("{}: given more than once", change.quantity->name));
    changes.push_back(change);
  }
  return changes;
}

Cluster with_changes(Cluster cluster, std::span<const QuantityChange> changes) {
  if (!changes.empty()) settle_tables(cluster.node.device);
  for (const QuantityChange& change : changes) apply(cluster, change);
  return cluster;
}

Cluster varied(Cluster cluster, std::span<const std::string> texts) {
  if (texts.empty()) return cluster;
  const std::string before = cluster.name;
  cluster = with_changes(std::move(cluster), parse_changes(texts));
  std::vector<std::string> settings;
  for (const std::string& text : texts) {
    const HardwareQuantity& quantity = *parse_change(text).quantity;
    if (quantity.name == "nodes" && cluster.name != before) continue;  // the name says it
    const std::string_view value = std::string_view(text).substr(text.find('=') + 1);
    settings.push_back(fmt::format("{}={}", quantity.name, meant_value(quantity, value)));
  }
  cluster.name = with_settings(cluster.name, settings);
  return cluster;
}

}  // namespace zplan
