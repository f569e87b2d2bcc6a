#include <nlohmann/json.hpp>

#include "planner/cli/predict/memory_answer.h"
#include "planner/cli/predict/prediction_output.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json deepspeed_part(const MemoryAnswer& answer) {
  if (!answer.deepspeed) return nullptr;
  const DeepSpeedJob& job = answer.deepspeed->job;
  Json estimates = Json::array();
  for (const NamedEstimate& estimate : answer.deepspeed->estimates) {
    estimates.push_back({{"rule", estimate.rule},
                         {"gpu_bytes", estimate.bytes.gpu.value},
                         {"host_bytes", estimate.bytes.host.value}});
  }
  return {{"parameters", job.parameters},
          {"largest_layer", job.largest_layer},
          {"gpus_per_node", job.gpus_per_node},
          {"nodes", job.nodes},
          {"slices_per_node", job.slices_per_node},
          {"estimates", std::move(estimates)},
          {"differences", reasons_of_difference(answer)}};
}

}  // namespace

std::string memory_answer_json(const MemoryAnswer& answer) {
  const MemoryPrediction& memory = answer.memory;
  Json out = {{"schema", "zplan.memory/1"},
              {"feasible", !memory.infeasible.has_value()},
              {"plan", Json::parse(to_json(answer.planned.plan))},
              {"cluster", answer.cluster.name},
              {"fingerprint", answer.planned.fingerprint},
              {"memory", Json::parse(memory_json(memory))}};
  out["infeasible"] = memory.infeasible ? Json::parse(infeasible_json(*memory.infeasible)) : Json();
  out["deepspeed"] = deepspeed_part(answer);
  return out.dump(2) + "\n";
}

}  // namespace zplan
