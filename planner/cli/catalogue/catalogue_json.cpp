#include "planner/cli/catalogue/catalogue.h"

#include <nlohmann/json.hpp>

#include "models/model_formulas.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json model_part(const ModelConfig& model) {
  Json sources = Json::object();
  for (const auto& [field, source] : model.field_sources) sources[field] = source;
  Json out = {
      {"name", model.name}, {"aliases", model.aliases}, {"parameters", parameter_count(model)}};
  for (const ModelField& field : fields_of(model))
    std::visit([&](auto value) { out[std::string(field.name)] = value; }, field.value);
  out["model_flop_per_token"] = model_flops_per_token(model).value;
  out["source"] = model.source;
  out["sources"] = std::move(sources);
  return out;
}

Json device_part(const DeviceProfile& device) {
  Json peaks = Json::object();
  for (const auto& [format, peak] : device.peaks) peaks[format] = peak.value;
  return {{"name", device.name},
          {"memory_bytes", device.memory.value},
          {"reserve_bytes", device.reserve().value},
          {"memory_bytes_per_s", device.memory_bandwidth.value},
          {"peak_flop_per_s", std::move(peaks)},
          {"kernel_set", device.kernel_set}};
}

Json sources_part(const std::vector<ValueSource>& values) {
  Json sources = Json::array();
  for (const ValueSource& s : values) {
    sources.push_back(
        {{"pointer", s.pointer}, {"value", s.value}, {"source", s.source}, {"ref", s.ref}});
  }
  return sources;
}

Json network_part(const Cluster& cluster) {
  const NetworkSpec& network = cluster.network;
  Json out = {{"kind", network.has_leaves() ? "leaf_spine" : "full_bisection"}};
  if (network.has_leaves()) {
    out["nodes_per_leaf"] = network.nodes_per_leaf;
    out["oversubscription"] = network.oversubscription;
    out["rails"] = network.rails;
    out["allocation"] = network.scattered ? "scattered" : "in_order";
  }
  out["fast_link_domain"] = cluster.domain();
  out["sources"] = sources_part(cluster.sources);
  return out;
}

Json cluster_part(const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  return {{"name", cluster.name},
          {"aliases", node.aliases},
          {"description", node.description},
          {"nodes", cluster.nodes},
          {"devices_per_node", node.devices_per_node},
          {"devices", cluster.devices()},
          {"network", network_part(cluster)},
          {"device", device_part(node.device)},
          {"host",
           {{"memory_bytes", node.host.memory.value},
            {"reserve_bytes", node.host.reserve.value},
            {"memory_bytes_per_s", node.host.memory_bandwidth.value},
            {"cpu_cores", node.host.cpu_cores}}},
          {"nvme",
           {{"drives", node.nvme.drives},
            {"capacity_bytes", node.nvme.capacity.value},
            {"read_bytes_per_s", node.nvme.read_bandwidth().value},
            {"write_bytes_per_s", node.nvme.write_bandwidth().value}}},
          {"profile_hash", node.hash},
          {"sources", sources_part(node.sources)}};
}

}  // namespace

std::string models_json(const std::vector<ModelConfig>& models) {
  Json out = {{"schema", "zplan.models/1"}, {"models", Json::array()}};
  for (const ModelConfig& model : models) out["models"].push_back(model_part(model));
  return out.dump(2) + "\n";
}

std::string clusters_json(const std::vector<Cluster>& clusters) {
  Json out = {{"schema", "zplan.clusters/1"}, {"clusters", Json::array()}};
  for (const Cluster& cluster : clusters) out["clusters"].push_back(cluster_part(cluster));
  return out.dump(2) + "\n";
}

}  // namespace zplan
