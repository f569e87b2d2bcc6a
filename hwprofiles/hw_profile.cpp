#include "hwprofiles/hw_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/cluster_name.h"
#include "hwprofiles/cluster_spelling.h"
#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/kernel_tables.h"
#include "hwprofiles/measured_curves.h"
#include "hwprofiles/node_file.h"
#include "hwprofiles/quantities.h"
#include "hwprofiles/read_node.h"
#include "hwprofiles/running.h"
#include "hwprofiles/sourced_object.h"
#include "planner/core/bundle.h"
#include "planner/core/error.h"
#include "planner/core/hash.h"
#include "planner/core/json_reader.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr int kMaxQueue = 1 << 20;  // launches or requests in flight

DeviceProfile read_device(SourcedObject in) {
  DeviceProfile device;
  device.name = in.object().member("name").non_empty_string();
  device.memory = in.bytes("memory");
  device.peaks = read_peaks(in.object().member("peak"), in.sources());
  device.memory_bandwidth = in.bytes_per_second("memory_bandwidth");
  device.gemm_efficiency = in.fraction("gemm_efficiency");
  device.attention_efficiency = in.fraction("attention_efficiency");
  device.memory_efficiency = in.fraction("memory_efficiency");
  device.gemm_overhead = in.seconds("gemm_overhead");
  device.launch_overhead = in.seconds("launch_overhead");
  device.graph_launch_overhead = in.object().optional_member("graph_launch_overhead")
                                     ? in.seconds("graph_launch_overhead")
                                     : device.launch_overhead;
  device.launch_queue_depth = in.integer("launch_queue_depth", 1, kMaxQueue);
  device.copy_latency = in.seconds("copy_latency");
  device.kernel_set = in.object().member("kernel_set").non_empty_string();
  if (in.object().optional_member("sm_count")) device.sm_count = in.integer("sm_count", 1, kMaxSms);
  if (in.object().optional_member("sustained")) device.sustained = in.factor("sustained");
  if (const auto tables = in.object().optional_member("kernel_tables")) {
    device.kernel_tables = tables->non_empty_string();
    const auto settled = in.object().optional_member("settled_tables");
    device.tables = std::make_shared<KernelTables>(device.kernel_tables,
                                                   settled ? settled->non_empty_string() : "");
  }
  if (in.object().optional_member("peer_access"))
    device.peer_access = in.integer("peer_access", 0, 1) == 1;
  if (in.object().optional_member("peer_sums"))
    device.peer_sums = in.integer("peer_sums", 0, 1) == 1;
  const JsonNode reserve_node = in.object().member("reserve");
  SourcedObject reserve(reserve_node, in.sources());
  device.reserve_context = reserve.bytes("context");
  device.reserve_communicators = reserve.bytes("communicators");
  device.reserve_workspace = reserve.bytes("workspace");
  reserve.finish();
  if (!reserve_node.has_faults() && device.reserve() >= device.memory) {
    reserve_node.fail("expected a reserve below the memory of the device, got as much or more");
  }
  in.finish();
  return device;
}

HostProfile read_host(SourcedObject in) {
  HostProfile host;
  host.memory = in.bytes("memory");
  host.reserve = in.bytes("reserve");
  if (!in.object().node().has_faults() && host.reserve >= host.memory) {
    in.object().member("reserve").fail("expected a reserve below the memory, got as much or more");
  }
  host.memory_bandwidth = in.bytes_per_second("memory_bandwidth");
  host.cpu_memory_efficiency = in.fraction("cpu_memory_efficiency");
  host.cpu_cores = in.integer("cpu_cores", 1, kMaxParts);
  host.core_flops = in.flops_per_second("core_flops");
  in.finish();
  return host;
}

NvmeProfile read_nvme(SourcedObject in) {
  NvmeProfile nvme;
  nvme.drives = in.integer("drives", 1, kMaxParts);
  nvme.capacity = in.bytes("capacity");
  nvme.drive_read = in.bytes_per_second("drive_read");
  nvme.drive_write = in.bytes_per_second("drive_write");
  if (in.has("efficiency")) nvme.efficiency = in.fraction("efficiency");
  if (in.has("read_beside_write")) nvme.read_beside_write = in.number("read_beside_write", 0, 1);
  nvme.queue_depth = in.integer("queue_depth", 1, kMaxQueue);
  nvme.block = in.bytes("block");
  nvme.latency = in.seconds("latency");
  in.finish();
  return nvme;
}

LatencyProfile read_latency(SourcedObject in) {
  LatencyProfile latency;
  latency.p2p_intra = in.seconds("p2p_intra");
  latency.p2p_inter = in.seconds("p2p_inter");
  latency.collective_intra = in.seconds("collective_intra");
  latency.collective_inter = in.seconds("collective_inter");
  latency.per_log2_nodes = in.seconds("per_log2_nodes");
  latency.per_node = in.seconds("per_node");
  if (in.has("transport")) latency.transport = in.seconds("transport");
  in.finish();
  return latency;
}

LinkClass read_link(const JsonNode& node, std::vector<ValueSource>& sources) {
  SourcedObject in(node, sources);
  LinkClass link;
  link.capacity = in.bytes_per_second("capacity");
  link.efficiency = in.fraction("efficiency");
  in.finish();
  return link;
}

// Counts are the layout of the machine, told by one "layout" sentence; links carry sourced values.
TopologySpec read_topology(SourcedObject in) {
  TopologySpec spec;
  const auto count = [&](std::string_view key, int min) {
    return static_cast<int>(in.object().member(key).integer(min, kMaxParts));
  };
  spec.sockets = count("sockets", 1);
  spec.switches_per_socket = count("switches_per_socket", 1);
  spec.gpus_per_switch = count("gpus_per_switch", 1);
  spec.nics_per_switch = count("nics_per_switch", 0);
  const std::int64_t switches = std::int64_t{spec.sockets} * spec.switches_per_socket;
  if (switches * (spec.gpus_per_switch + spec.nics_per_switch) > kMaxParts) {
    in.object().node().fail(fmt::format("expected at most {} GPUs and NICs, got more", kMaxParts));
  }
  in.object().member("layout").non_empty_string();
  if (const auto shape = in.object().optional_member("peer_shape"))
    spec.peer_shape = read_peer_shape(*shape, spec.gpus());
  JsonObject links = in.object().member("links").object();
  const auto link = [&](std::string_view key, bool required) -> std::optional<LinkClass> {
    const auto node = required ? links.member(key) : links.optional_member(key);
    return node ? std::optional(read_link(*node, in.sources())) : std::nullopt;
  };
  spec.gpu_peer = link("gpu_peer", false);
  spec.gpu_pcie = *link("gpu_pcie", true);
  spec.pcie_uplink = *link("pcie_uplink", true);
  spec.dram = *link("dram", true);
  spec.socket_peer = link("socket_peer", spec.sockets > 1).value_or(LinkClass{});
  spec.nic_pcie = link("nic_pcie", spec.nics() > 0).value_or(LinkClass{});
  spec.nic = link("nic", spec.nics() > 0).value_or(LinkClass{});
  links.finish();
  in.finish();
  return spec;
}

// Of GPUs; a CPU that stands for one meets others in host memory. The name of the tables is that of
// the measured kernels.
std::shared_ptr<const CollectiveProfile> read_collectives(const HwProfile& profile,
                                                          JsonObject device) {
  if (profile.device.kernel_set.starts_with("cpu.")) return nullptr;
  const auto tables = device.optional_member("kernel_tables");
  const TopologySpec& spec = profile.topology;
  return collective_profile(tables ? tables->non_empty_string() : "",
                            {.peer = spec.gpu_peer ? spec.gpu_peer->capacity : BytesPerSecond{},
                             .pcie = spec.gpu_pcie.capacity,
                             .staged = !profile.device.peer_access,
                             .sums = profile.device.peer_sums});
}

[[noreturn]] void fail_unknown(std::string_view text) {
  throw_bad_input(fmt::format(
      "unknown cluster {}{} (known: what zplan clusters lists, each alone or as NAMExCOUNT, GPUs "
      "such as 16xH100, or a path to a .json file)",
      in_quotes(text), nearest_cluster_name(text)));
}

HwProfile parse_embedded(const EmbeddedFile& file) {
  return parse_hw_profile(std::string(file.text), std::string(file.name));
}

Cluster load_cluster_file(std::string_view text) {
  const auto counted = split_count(text);
  const bool has_count = counted && to_lower(counted->name).ends_with(".json");
  const std::string path(has_count ? counted->name : text);
  const int count = has_count ? node_count(text, counted->digits) : 1;
  const std::string file = read_text_file(path);
  const JsonNode document = parse_json(file, path);
  const std::optional<JsonNode> bundled = bundle_part(document, "hardware");
  const JsonNode root = bundled ? *bundled : gathering_faults(document);
  if (bundled && !is_cluster_file(root)) root.fail_expected("a zplan.cluster document");
  if (!is_cluster_file(root)) {
    HwProfile node = parse_hw_profile(file, path);
    node.file = path;
    return make_cluster(std::move(node), count);
  }
  if (has_count) {
    throw_bad_input(
        fmt::format("cluster {}: expected no count after a file that states one, got {}",
                    in_quotes(text), counted->digits));
  }
  return read_cluster_file(root, file, std::filesystem::path(path).parent_path().string());
}

// By its own name, in any case; nothing: the text is no such name.
std::optional<Cluster> named_cluster(std::string_view name) {
  // The whole text first: "dgx2" is a name, not two nodes of kind "dg".
  if (const EmbeddedFile* const file = find_node_file(name))
    return make_cluster(parse_embedded(*file), 1);
  const auto counted = split_count(name);
  if (const EmbeddedFile* const file = counted ? find_node_file(counted->name) : nullptr)
    return make_cluster(parse_embedded(*file), node_count(name, counted->digits));
  if (const EmbeddedFile* const file = find_cluster_file(name)) return read_embedded_cluster(*file);
  return std::nullopt;
}

Cluster load_plain_cluster(std::string_view name_or_path) {
  if (looks_like_path(name_or_path)) return load_cluster_file(name_or_path);
  if (auto named = named_cluster(name_or_path)) {
    if (std::string remark = remark_on_node_name(name_or_path, *named); !remark.empty())
      named->understood.push_back(std::move(remark));
    return *std::move(named);
  }
  auto spelled = spelled_cluster(name_or_path);
  if (!spelled) fail_unknown(name_or_path);
  Cluster cluster = load_any_cluster(spelled->name);
  cluster.understood.clear();
  if (!spelled->sentence.empty()) cluster.understood.push_back(std::move(spelled->sentence));
  return cluster;
}

// They are for whoever looks a name up (cluster_vocabulary.h).
void read_spellings(const JsonNode& node) {
  JsonObject in = node.object();
  in.member("names").words();
  in.member("ref").non_empty_string();
  in.finish();
}

}  // namespace

HwProfile::HwProfile() = default;
HwProfile::HwProfile(const HwProfile&) = default;
HwProfile::HwProfile(HwProfile&&) noexcept = default;
HwProfile& HwProfile::operator=(const HwProfile&) = default;
HwProfile& HwProfile::operator=(HwProfile&&) noexcept = default;
HwProfile::~HwProfile() = default;

std::string_view peak_of_format(std::string_view format) {
  if (format == "nvfp4") return "fp4";
  return is_of_codes(format) ? "fp8" : format;
}

bool DeviceProfile::supports(std::string_view dtype) const {
  return peaks.find(peak_of_format(dtype)) != peaks.end();
}

FlopsPerSecond DeviceProfile::peak(std::string_view dtype) const {
  const auto found = peaks.find(peak_of_format(dtype));
  if (found == peaks.end()) {
    throw_bad_input(fmt::format("device {} has no {} arithmetic", name, dtype));
  }
  return found->second;
}

Cluster make_cluster(HwProfile node, int nodes) {
  Cluster cluster;
  cluster.stack = load_stack("own").rates;
  cluster.name = nodes == 1 ? node.name : fmt::format("{}x{}", node.name, nodes);
  cluster.node = std::move(node);
  cluster.nodes = nodes;
  return cluster;
}

HwProfile parse_hw_profile(std::string text, std::string file_name) {
  return read_node(complete_node_file(std::move(text), file_name));
}

HwProfile read_node(const NodeFile& file) {
  HwProfile profile;
  profile.hash = to_hex(fnv1a128(file.text));
  JsonObject object = gathering_faults(file.root).object();
  const auto section = [&](std::string_view key) {
    return SourcedObject(object.member(key), profile.sources);
  };
  object.schema("zplan.hw/1");
  if (const auto spellings = object.optional_member("spellings")) read_spellings(*spellings);
  profile.name = object.member("name").non_empty_string();
  const auto description = object.optional_member("description");
  profile.description = description ? description->non_empty_string() : profile.name;
  if (const auto aliases = object.optional_member("aliases")) profile.aliases = aliases->words();
  profile.device = read_device(section("device"));
  profile.host = read_host(section("host"));
  if (object.optional_member("nvme")) profile.nvme = read_nvme(section("nvme"));
  profile.latency = read_latency(section("latency"));
  profile.topology = read_topology(section("topology"));
  if (const auto running = object.optional_member("running"))
    read_running(*running, profile.sources);
  if (const auto cores = object.optional_member("cores"))
    profile.cores = std::make_shared<CoreProfile>(read_cores(*cores, profile.sources));
  profile.device.collectives = read_collectives(profile, object.member("device").object());
  if (const auto measured = object.optional_member("collectives"))
    profile.device.collectives = with_measured_curves(profile, *measured, profile.sources);
  object.finish();
  profile.topology.nvme_drives = profile.nvme.drives;
  profile.topology.nvme_read = {profile.nvme.drive_read, profile.nvme.efficiency};
  profile.topology.nvme_write = {profile.nvme.drive_write, profile.nvme.efficiency};
  profile.devices_per_node = profile.whole_devices = profile.topology.gpus();
  return profile;
}

std::vector<HwProfile> node_catalogue() {
  std::vector<HwProfile> nodes;
  for (const EmbeddedFile& file : embedded_profiles()) {
    nodes.push_back(parse_embedded(file));
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const HwProfile& a, const HwProfile& b) { return a.name < b.name; });
  return nodes;
}

Cluster load_cluster(std::string_view name_or_path) {
  Cluster cluster = load_any_cluster(name_or_path);
  if (cluster.groups.empty()) return cluster;
  std::string kinds;
  for (const NodeGroup& group : cluster.groups)
    kinds += fmt::format("{}{} x {}", kinds.empty() ? "" : ", ", group.nodes, group.node);
  throw_bad_input(
      fmt::format("cluster {}: expected nodes of one kind to plan for, got {}; plan for "
                  "one of them, as in --cluster {}x{}",
                  cluster.name, kinds, cluster.groups.front().node, cluster.groups.front().nodes));
}

Cluster load_any_cluster(std::string_view name_or_path) {
  const VariedName name = split_settings(name_or_path);
  Cluster cluster = load_plain_cluster(name.plain);
  // One after the other: a later one may change what an earlier one has set.
  for (const std::string& setting : name.settings)
    cluster = varied(std::move(cluster), {&setting, 1});
  return cluster;
}

std::string catalogue_name(std::string_view name_or_path) {
  const VariedName name = split_settings(name_or_path);
  if (looks_like_path(name.plain) || named_cluster(name.plain)) return std::string(name_or_path);
  const auto spelled = spelled_cluster(name.plain);
  return spelled ? with_settings(spelled->name, name.settings) : std::string(name_or_path);
}

}  // namespace zplan
