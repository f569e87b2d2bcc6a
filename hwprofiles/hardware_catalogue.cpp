#include "hwprofiles/hardware_catalogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/kernel_tables.h"
#include "hwprofiles/sourced_object.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr int kMaxCapability = 999;

// How people call it is for whoever looks a name up (cluster_vocabulary.h).
void read_names(JsonObject& in) {
  if (const auto spellings = in.optional_member("spellings")) {
    JsonObject names = spellings->object();
    names.member("names").words();
    names.member("with").words();
    names.finish();
  }
  if (const auto server = in.optional_member("server")) server->non_empty_string();
  if (const auto instances = in.optional_member("instances")) {
    for (const JsonNode& one : instances->items()) {
      JsonObject instance = one.object();
      instance.member("name").non_empty_string();
      instance.member("gpus").integer(1, kMaxParts);
      instance.member("ref").non_empty_string();
      instance.finish();
    }
  }
}

DeviceFacts read_device(const JsonNode& node) {
  DeviceFacts device;
  SourcedObject in(node, device.sources);
  device.id = in.object().member("id").non_empty_string();
  device.name = in.object().member("name").non_empty_string();
  device.relative = in.object().member("relative").non_empty_string();
  device.capability = static_cast<int>(in.object().member("capability").integer(1, kMaxCapability));
  read_names(in.object());
  if (const auto set = in.object().optional_member("kernel_set"))
    device.kernel_set = set->non_empty_string();
  if (const auto tables = in.object().optional_member("kernel_tables")) {
    device.kernel_tables = tables->non_empty_string();
    const auto settled = in.object().optional_member("settled_tables");
    device.tables = std::make_shared<KernelTables>(device.kernel_tables,
                                                   settled ? settled->non_empty_string() : "");
  }
  device.memory = in.bytes("memory");
  device.peaks = read_peaks(in.object().member("peak"), in.sources());
  device.memory_bandwidth = in.bytes_per_second("memory_bandwidth");
  if (in.has("peer_link")) device.peer_link = in.bytes_per_second("peer_link");
  if (const auto shape = in.object().optional_member("peer_shape"))
    device.peers =
        shape->one_of({"cube_mesh", "mesh"}) == "mesh" ? PeerKind::kMesh : PeerKind::kCubeMesh;
  if (in.has("peer_access")) device.peer_access = in.integer("peer_access", 0, 1) == 1;
  if (in.has("peer_sums")) device.peer_sums = in.integer("peer_sums", 0, 1) == 1;
  device.host_link = in.bytes_per_second("host_link");
  if (in.has("gemm_efficiency")) device.gemm_efficiency = in.fraction("gemm_efficiency");
  if (in.has("sustained")) device.sustained = in.factor("sustained");
  device.sm_count = in.integer("sm_count", 1, kMaxSms);
  device.scale_out = in.bytes_per_second("scale_out");
  in.finish();
  device.collectives =
      collective_profile(device.kernel_tables, {.peer = device.peer_link.value_or(BytesPerSecond{}),
                                                .pcie = device.host_link,
                                                .staged = !device.peer_access,
                                                .sums = device.peer_sums});
  return device;
}

SystemFacts read_system(const JsonNode& node) {
  SystemFacts system;
  SourcedObject in(node, system.sources);
  system.id = in.object().member("id").non_empty_string();
  system.name = in.object().member("name").non_empty_string();
  system.device = in.object().member("device").non_empty_string();
  if (const auto profile = in.object().optional_member("profile"))
    system.profile = profile->non_empty_string();
  system.devices_per_node = in.integer("devices_per_node", 1, kMaxParts);
  system.scale_up_domain = in.integer("scale_up_domain", 1, kMaxParts);
  if (in.has("nics")) {
    system.nics = in.integer("nics", 1, kMaxParts);
    system.nic = in.bytes_per_second("nic");
    if (in.has("transport")) system.transport = in.seconds("transport");
    if (in.has("ring_out")) system.ring_out = in.bytes_per_second("ring_out");
  }
  if (in.has("host_memory")) system.host_memory = in.bytes("host_memory");
  if (in.has("cpu_cores")) system.cpu_cores = in.integer("cpu_cores", 1, kMaxParts);
  if (in.has("settled")) system.settled = in.number("settled", 0.5, 2);
  if (in.has("drives")) system.drives = in.integer("drives", 1, kMaxParts);
  in.finish();
  return system;
}

template <typename Facts>
std::vector<Facts> read_list(const JsonNode& root, std::string_view schema, std::string_view key,
                             Facts (*read)(const JsonNode&)) {
  JsonObject in = root.object();
  in.schema(schema);
  in.member("description").non_empty_string();
  std::vector<Facts> all;
  for (const JsonNode& node : in.member(key).items()) {
    Facts facts = read(node);
    const bool is_known =
        std::any_of(all.begin(), all.end(), [&](const Facts& one) { return one.id == facts.id; });
    if (is_known && !facts.id.empty())
      node.fail(fmt::format("expected one of each id, got {} again", in_quotes(facts.id)));
    all.push_back(std::move(facts));
  }
  in.finish();
  return all;
}

// Names the ids that begin so, else the nearest, else all.
std::string others(std::string_view id, const std::vector<std::string>& ids) {
  std::vector<std::string> longer;
  const std::string wanted = to_lower(id);
  for (const std::string& one : ids)
    if (one.starts_with(wanted)) longer.push_back(in_quotes(one));
  if (!longer.empty()) return fmt::format("; did you mean {}?", joined(longer, " or "));
  const std::string nearest = did_you_mean(std::string(id), ids);
  return nearest.empty() ? fmt::format("; known: {}", joined(ids, ", ")) : nearest;
}

template <typename Facts>
const Facts& find(const std::vector<Facts>& all, std::string_view id, const char* what) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Facts& facts) { return facts.id == id; });
  if (found != all.end()) return *found;
  std::vector<std::string> ids;
  for (const Facts& facts : all) ids.push_back(facts.id);
  throw_bad_input(fmt::format("unknown {} {}{}", what, in_quotes(id), others(id, ids)));
}

std::string_view embedded(std::string_view name) {
  for (const EmbeddedFile& file : embedded_hardware())
    if (file.name == name) return file.text;
  ZPLAN_ASSERT(false);
  return {};
}

}  // namespace

std::vector<DeviceFacts> parse_devices(std::string text, std::string file_name) {
  return read_list(parse_json(std::move(text), std::move(file_name)), "zplan.devices/1", "devices",
                   read_device);
}

std::vector<SystemFacts> parse_systems(std::string text, std::string file_name) {
  return read_list(parse_json(std::move(text), std::move(file_name)), "zplan.systems/1", "systems",
                   read_system);
}

const DeviceFacts& HardwareCatalogue::device(std::string_view id) const {
  return find(devices, id, "device");
}

const SystemFacts& HardwareCatalogue::system(std::string_view id) const {
  return find(systems, id, "system");
}

HardwareCatalogue load_hardware_catalogue() {
  const std::string devices = "hwprofiles/catalogue/hardware/devices.json";
  const std::string systems = "hwprofiles/catalogue/hardware/systems.json";
  return {.devices = parse_devices(std::string(embedded(devices)), devices),
          .systems = parse_systems(std::string(embedded(systems)), systems)};
}

}  // namespace zplan
