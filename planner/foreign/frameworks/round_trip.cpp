#include "planner/foreign/frameworks/round_trip.h"

#include <algorithm>

#include "planner/core/json_reader.h"

namespace zplan {

Setup read_back(const Framework& framework, const Plan& plan, const ModelConfig& model,
                const Cluster& cluster) {
  const Surroundings around{.model = model,
                            .device = cluster.node.device,
                            .ranks = plan.parallel.ranks(),
                            .with_trainer = false,
                            .asked = framework.said(plan),
                            .devices_per_node = cluster.node.devices_per_node};
  const JsonNode root = parse_json(nested_json(framework.keys(plan, model)), "what was written");
  Setup setup = framework.read(root, around);
  setup.plan.model = plan.model;
  setup.plan.hardware = plan.hardware;
  setup.plan.slack = plan.slack;  // of our own placement
  return setup;
}

bool does_as_planned(const Setup& setup, std::string_view pointer) {
  return std::ranges::any_of(setup.findings, [&](const Finding& finding) {
    return finding.trouble == Trouble::kNotModelled && finding.key == pointer;
  });
}

}  // namespace zplan
