#include <nlohmann/json.hpp>

#include "planner/cli/predict/anchor_output.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/cli/predict/simulation.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json lane_part(const sim::LaneReport& lane) {
  return {{"stage", lane.stage},
          {"lane", name(lane.lane)},
          {"busy_share", lane.busy_share},
          {"busy_s", lane.busy.value},
          {"exposed_s", lane.exposed.value},
          {"latency_s", lane.latency.value},
          {"peer_wait_s", lane.peer_wait.value},
          {"reuse_wait_s", lane.reuse_wait.value},
          {"launch_wait_s", lane.launch_wait.value}};
}

Json link_part(const sim::LinkReport& link) {
  return {{"name", link.name},
          {"kind", link.kind},
          {"utilisation", link.utilisation},
          {"busy_share", link.busy_share}};
}

}  // namespace

std::string simulation_json(const Simulation& simulation) {
  const MemoryPrediction& memory = simulation.memory;
  Json out = {{"schema", "zplan.simulation/1"},
              {"feasible", !memory.infeasible.has_value()},
              {"plan", Json::parse(to_json(simulation.planned.plan))},
              {"cluster", simulation.cluster.name},
              {"fingerprint", simulation.planned.fingerprint},
              {"memory", Json::parse(memory_json(memory))}};
  out["infeasible"] = memory.infeasible ? Json::parse(infeasible_json(*memory.infeasible)) : Json();
  if (!simulation.time) {
    out["time"] = nullptr;
    return out.dump(2) + "\n";
  }
  const sim::SimResult& sim = simulation.time->sim;
  out["time"] = Json::parse(time_json(*simulation.time));
  out["steps"] = sim.steps;
  out["steady"] = sim.steady;
  out["ops"] = sim.ops;
  out["lanes"] = Json::array();
  for (const sim::LaneReport& lane : sim.lanes) out["lanes"].push_back(lane_part(lane));
  out["links"] = Json::array();
  for (const sim::LinkReport& link : sim.links) out["links"].push_back(link_part(link));
  if (!simulation.anchors.empty()) out["anchors"] = Json::parse(anchors_json(simulation.anchors));
  return out.dump(2) + "\n";
}

}  // namespace zplan
