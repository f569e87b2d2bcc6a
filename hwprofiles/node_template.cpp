#include <fmt/format.h>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/cluster_name.h"
#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/node_file.h"
#include "planner/core/bundle.h"
#include "planner/core/error.h"
#include "planner/core/json_edit.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

std::string of_text(std::string text, const std::string& file_name) {
  JsonNode root = parse_json(text, file_name);
  if (const auto bundled = bundle_part(root, "hardware")) root = *bundled;
  if (!is_cluster_file(root)) root = complete_node_file(std::move(text), file_name).root;
  return json_text(root) + "\n";
}

}  // namespace

std::string hardware_template(std::string_view name_or_path) {
  const std::string known = catalogue_name(name_or_path);
  const VariedName name = split_settings(known);
  if (!name.settings.empty())
    throw_bad_input(fmt::format("cluster {}: expected no settings, which a file says itself",
                                in_quotes(known)));
  const Cluster cluster = load_cluster(name.plain);
  for (const EmbeddedFile& file : embedded_clusters())
    if (parse_json(std::string(file.text), std::string(file.name))
            .object()
            .member("name")
            .string() == cluster.name)
      return of_text(std::string(file.text), std::string(file.name));
  if (cluster.node.file.empty() && !looks_like_path(name.plain)) {
    const EmbeddedFile& file = *find_node_file(cluster.node.name);
    return of_text(std::string(file.text), std::string(file.name));
  }
  const auto counted = split_count(name.plain);
  const bool has_count = counted && to_lower(counted->name).ends_with(".json");
  const std::string path(has_count ? counted->name : std::string_view(name.plain));
  return of_text(read_text_file(path), path);
}

}  // namespace zplan
