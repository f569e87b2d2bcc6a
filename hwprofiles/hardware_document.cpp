#include "hwprofiles/hardware_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/cluster_name.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/node_file.h"
#include "planner/core/hash.h"
#include "planner/core/json_edit.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// The cluster with this node in the place of what it has.
std::string with_node(const JsonNode& cluster, const std::string& node) {
  const JsonNode bare = written_over(cluster, parse_json(R"({"node": null})", "node.json"));
  return json_text(written_over(bare, parse_json(R"({"node": )" + node + "}", "node.json")));
}

// The node that a cluster file names, or has in it, without what it rests on.
std::string node_text(const JsonNode& node, const std::string& folder,
                      std::vector<std::string>& settings) {
  if (!node.is_string()) return json_text(complete_node(node, folder).root);
  VariedName name = split_settings(node.string());
  if (looks_like_path(name.plain))
    name.plain = (std::filesystem::path(folder) / name.plain).string();
  settings = std::move(name.settings);
  return hardware_template(name.plain);
}

bool is_told_apart(const std::string& key) {
  constexpr std::string_view kWords[] = {"schema",    "name",   "description", "aliases",
                                         "spellings", "source", "ref"};
  return std::find(std::begin(kWords), std::end(kWords), key) == std::end(kWords);
}

// Members by name, "value" in place of what states it, no words.
std::string canonical(const JsonNode& node) {
  std::string out;
  if (node.is_array()) {
    for (const JsonNode& item : node.items()) out += canonical(item) + ",";
    return "[" + out + "]";
  }
  if (!node.is_object()) return json_text(node);
  auto members = node.members();
  for (const auto& [key, member] : members)
    if (key == "value") return canonical(member);
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, member] : members)
    if (is_told_apart(key)) out += fmt::format("{}:{},", json_string(key), canonical(member));
  return "{" + out + "}";
}

}  // namespace

HardwareDocument hardware_document(std::string_view name_or_path) {
  const VariedName name = split_settings(catalogue_name(name_or_path));
  const Cluster cluster = load_cluster(name.plain);
  HardwareDocument document{.name = cluster.name, .text = {}, .settings = {}};
  const std::string text = hardware_template(name.plain);
  const JsonNode root = parse_json(text, name.plain);
  if (is_cluster_file(root)) {
    const std::string folder = std::filesystem::path(name.plain).parent_path().string();
    const JsonNode node = root.object().member("node");
    document.text = with_node(root, node_text(node, folder, document.settings));
  } else {
    document.text =
        fmt::format(R"({{"schema": "zplan.cluster/1", "name": {}, "node": {}, "nodes": {}}})",
                    json_string(cluster.name), text, cluster.nodes);
  }
  document.settings.insert(document.settings.end(), name.settings.begin(), name.settings.end());
  return document;
}

std::string hardware_hash(std::string_view name_or_path) {
  const HardwareDocument document = hardware_document(name_or_path);
  return to_hex(fnv1a128(fmt::format("{}{{{}}}", canonical(parse_json(document.text, "")),
                                     joined(document.settings, ","))));
}

}  // namespace zplan
