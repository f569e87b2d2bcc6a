#include "hwprofiles/node_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/hw_profile.h"
#include "planner/core/error.h"
#include "planner/core/json_edit.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr int kMostBases = 8;  // a file that is its own base would have no end

std::optional<JsonNode> find(const JsonNode& object, std::string_view key) {
  if (!object.is_object()) return std::nullopt;
  for (auto& [name, node] : object.members())
    if (name == key) return node;
  return std::nullopt;
}

std::string string_of(const JsonNode& object, std::string_view key) {
  const auto node = find(object, key);
  return node && node->is_string() ? node->string() : "";
}

JsonNode patch(const std::string& text, std::string name) {
  return parse_json(text, std::move(name));
}

// ---- what a base says of another machine -------------------------------------------------------

// The same object with each number assumed, and the reason why.
std::string assumed_text(const JsonNode& node, const std::string& base) {
  std::string out;
  const auto add = [&out](std::string_view key, const std::string& text) {
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", key, text);
  };
  for (const auto& [key, member] : node.members()) {
    if (!member.is_object()) continue;
    const auto value = find(member, "value");
    if (!value) {
      add(key, assumed_text(member, base));
      continue;
    }
    const std::string source = string_of(member, "source"), ref = string_of(member, "ref");
    const std::string why =
        fmt::format("as {}: {}{}", base, source == "assumed" ? "" : source + ", ", ref);
    add(key, fmt::format(R"({{"value": {}, "source": "assumed", "ref": {}}})", json_text(*value),
                         json_string(why)));
  }
  return "{" + out + "}";
}

JsonNode as_assumed(const JsonNode& base, const std::string& name) {
  JsonNode root = written_over(base, patch(assumed_text(base, name), name));
  return written_over(root,
                      patch(R"({"running": null, "cores": null, "collectives": null})", name));
}

// ---- the data sheet of a device ----------------------------------------------------------------

JsonNode device_catalogue() {
  for (const EmbeddedFile& file : embedded_hardware())
    if (file.name == "hwprofiles/catalogue/hardware/devices.json")
      return parse_json(std::string(file.text), std::string(file.name));
  ZPLAN_ASSERT(false);
  return parse_json("", "");
}

JsonNode find_device(const JsonNode& name) {
  const std::string id = name.non_empty_string();
  const JsonNode catalogue = device_catalogue();
  for (const JsonNode& device : find(catalogue, "devices")->items())
    if (string_of(device, "id") == to_lower(id)) return device;
  const std::vector<std::string> names = gpu_names();
  name.fail(fmt::format("expected a device, got {}{} (known: {})", name.describe(),
                        did_you_mean(id, names), joined(names, ", ")));
}

std::string member_text(const JsonNode& object, std::string_view key) {
  const auto node = find(object, key);
  return node ? json_text(*node) : "null";
}

// Of a link that reaches its whole capacity in the base that is what it was measured at.
bool states_achieved_rate(const JsonNode& base, std::string_view link) {
  auto node = find(base, "topology");
  for (const std::string_view key :
       {std::string_view("links"), link, std::string_view("efficiency"), std::string_view("value")})
    if (node) node = find(*node, key);
  return node && node->is_number() && node->number(0, 1) >= 1;
}

std::string kernel_set_of(const JsonNode& device) {
  constexpr int kFirstWithBf16 = 80;
  if (const auto own = find(device, "kernel_set")) return own->non_empty_string();
  const int capability = static_cast<int>(find(device, "capability")->integer(1, 999));
  return fmt::format("cuda.sm{}.{}", capability, capability < kFirstWithBf16 ? "fp16" : "bf16");
}

JsonNode with_data_sheet(const JsonNode& base, const JsonNode& device) {
  std::string text = "{\"device\": {\"peak\": null}}";  // formats that the device has not
  const JsonNode bare = written_over(base, patch(text, ""));
  text = fmt::format(R"({{"device": {{"name": {}, "kernel_set": "{}")", member_text(device, "name"),
                     kernel_set_of(device));
  for (const std::string_view key :
       {"memory", "peak", "memory_bandwidth", "sm_count", "kernel_tables", "settled_tables"})
    text += fmt::format(", \"{}\": {}", key, member_text(device, key));
  for (const std::string_view key : {"gemm_efficiency", "sustained"})
    if (find(device, key)) text += fmt::format(", \"{}\": {}", key, member_text(device, key));
  for (const std::string_view key : {"peer_access", "peer_sums"})
    text += fmt::format(", \"{}\": {}", key, member_text(device, key));
  // Other shapes are of boards of one size, which the node may not have.
  const bool meshed = string_of(device, "peer_shape") == "mesh";
  text += fmt::format(R"(}}, "topology": {{"peer_shape": {}, "links": {{"gpu_peer": )",
                      meshed ? "\"mesh\"" : "null");
  const bool has_peers = find(device, "peer_link").has_value();
  text +=
      has_peers ? fmt::format("{{\"capacity\": {}}}", member_text(device, "peer_link")) : "null";
  for (const std::string_view link : {"gpu_pcie", "pcie_uplink"})
    if (!states_achieved_rate(base, link))
      text += fmt::format(", \"{}\": {{\"capacity\": {}}}", link, member_text(device, "host_link"));
  return written_over(bare, patch(text + "}}}", "hwprofiles/catalogue/hardware/devices.json"));
}

// ---- bases -------------------------------------------------------------------------------------

NodeFile complete(const JsonNode& own, std::string text, const std::string& file_name, int depth);

NodeFile base_of(const JsonNode& name, const std::string& folder, int depth) {
  const std::string wanted = name.non_empty_string();
  if (depth >= kMostBases)
    name.fail(fmt::format("expected at most {} bases one on another, got more", kMostBases));
  if (looks_like_path(wanted)) {
    const std::string path = (std::filesystem::path(folder) / wanted).string();
    const std::string text = read_text_file(path);
    return complete(parse_json(text, path), text, path, depth + 1);
  }
  if (const EmbeddedFile* const file = find_node_file(wanted)) {
    const std::string text(file->text), path(file->name);
    return complete(parse_json(text, path), text, path, depth + 1);
  }
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_profiles()) names.emplace_back(file.stem());
  name.fail(fmt::format("expected a kind of node, got {}{} (known: {}; or a path to a .json file)",
                        name.describe(), did_you_mean(wanted, names), joined(names, ", ")));
}

NodeFile complete(const JsonNode& own, std::string text, const std::string& file_name, int depth) {
  const auto base_name = find(own, "base"), gpu = find(own, "gpu");
  if (!base_name && !gpu) return {own, std::move(text)};
  const std::string folder = std::filesystem::path(file_name).parent_path().string();
  std::optional<JsonNode> device;
  if (gpu) device = find_device(*gpu);
  const JsonNode name = base_name ? *base_name : *find(*device, "relative");
  NodeFile base = base_of(name, folder, depth);
  const JsonNode blank = patch(
      R"({"name": null, "description": null, "aliases": null, "spellings": null})", file_name);
  JsonNode root = base.root;
  if (device) root = with_data_sheet(as_assumed(root, string_of(root, "name")), *device);
  root = written_over(written_over(root, blank), own);
  root = written_over(root, patch(R"({"base": null, "gpu": null})", file_name));
  return {root, text + base.text};
}

}  // namespace

NodeFile complete_node_file(std::string text, const std::string& file_name) {
  const JsonNode own = parse_json(text, file_name);
  return complete(own, std::move(text), file_name, 0);
}

NodeFile complete_node(const JsonNode& own, const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / "node.json").string();
  // A document of its own, whose faults are said where it ends.
  return complete(written_over(own, patch("{}", file)), json_text(own), file, 0);
}

const EmbeddedFile* find_node_file(std::string_view name) {
  const std::string wanted = to_lower(name);
  for (const EmbeddedFile& file : embedded_profiles())
    if (to_lower(file.stem()) == wanted) return &file;
  for (const EmbeddedFile& file : embedded_profiles()) {
    const JsonNode root = parse_json(std::string(file.text), std::string(file.name));
    const auto aliases = find(root, "aliases");
    if (!aliases) continue;
    for (const JsonNode& alias : aliases->items())
      if (to_lower(alias.string()) == wanted) return &file;
  }
  return nullptr;
}

bool has_whole_profile(std::string_view kind) {
  const EmbeddedFile* const file = find_node_file(kind);
  if (file == nullptr) return false;
  const JsonNode root = parse_json(std::string(file->text), std::string(file->name));
  return !find(root, "base") && !find(root, "gpu");
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  const JsonNode catalogue = device_catalogue();
  for (const JsonNode& device : find(catalogue, "devices")->items())
    names.push_back(string_of(device, "id"));
  return names;
}

}  // namespace zplan
