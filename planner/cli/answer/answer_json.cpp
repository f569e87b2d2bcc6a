#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/model_formulas.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/predict/anchor_output.h"
#include "planner/cli/predict/prediction_output.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json model_part(const Answer& answer) {
  const ModelConfig& model = answer.model;
  return {{"name", model.name},
          {"parameters", parameter_count(model)},
          {"layers", model.layers},
          {"hidden", model.hidden},
          {"heads", model.heads},
          {"sequence", answer.sequence},
          {"global_batch", answer.global_batch},
          {"source", model.source}};
}

Json cluster_part(const Cluster& cluster) {
  return {{"name", cluster.name},
          {"nodes", cluster.nodes},
          {"devices_per_node", cluster.node.devices_per_node},
          {"devices", cluster.devices()},
          {"device", cluster.node.device.name},
          {"profile_hash", cluster.node.hash}};
}

Json rejected_part(const Rejected& rejected) {
  Json tiers = {"gpu"};
  if (rejected.family.cpu) tiers.push_back("cpu");
  if (rejected.family.nvme) tiers.push_back("nvme");
  Json out = {{"family", name(rejected.family)},
              {"zero_stage", rejected.family.zero_stage},
              {"tiers", std::move(tiers)},
              {"tensor", rejected.family.tensor},
              {"pipeline", rejected.family.pipeline},
              {"precision", recipe_name(rejected.family.recipe)},
              {"reason", rejected.reason},
              {"bound_s", rejected.best.bound.value}};
  out["step_s"] = rejected.best.step ? Json(rejected.best.step->value) : Json();
  out["infeasible"] =
      rejected.best.infeasible ? Json::parse(infeasible_json(*rejected.best.infeasible)) : Json();
  out["plan"] = Json::parse(to_json(rejected.best.plan));
  return out;
}

}  // namespace

std::string answer_json(const Answer& answer) {
  Json out = {{"schema", "zplan.answer/1"},
              {"feasible", fits(answer)},
              {"model", model_part(answer)},
              {"cluster", cluster_part(answer.cluster)}};
  if (answer.best) {
    out["plan"] = Json::parse(to_json(answer.best->planned.plan));
    out["memory"] = Json::parse(memory_json(answer.best->memory));
    out["time"] = Json::parse(time_json(answer.best->time));
    out["fingerprint"] = answer.best->planned.fingerprint;
  } else {
    for (const char* key : {"plan", "memory", "time", "fingerprint"}) out[key] = nullptr;
  }
  if (!fits(answer)) out["reason"] = misfit_line(answer);
  if (const std::string why = tier_reason(answer); !why.empty()) out["fits"] = why;
  const SearchStats& stats = answer.search.stats;
  out["search"] = {{"space", stats.space},
                   {"set_aside", stats.set_aside},
                   {"visited", stats.visited},
                   {"simulated", stats.simulated},
                   {"gap", stats.gap}};
  if (const auto& fastest = answer.search.fastest) {
    const auto& wins = answer.search.wins;
    out["fastest"] = {{"step_s", fastest->step->value},
                      {"wins_of_100", wins ? Json(*wins) : Json()},
                      {"plan", Json::parse(to_json(fastest->plan))}};
  }
  out["rejected"] = Json::array();
  for (const Rejected& rejected : answer.search.rejected) {
    out["rejected"].push_back(rejected_part(rejected));
  }
  if (answer.elapsed) out["timing"] = {{"elapsed_s", answer.elapsed->value}};
  if (!answer.anchors.empty()) out["anchors"] = Json::parse(anchors_json(answer.anchors));
  return out.dump(2) + "\n";
}

}  // namespace zplan
