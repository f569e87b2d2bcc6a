#include <nlohmann/json.hpp>

#include "planner/cli/prediction_output.h"

namespace zplan {

std::string time_json(const TimePrediction& time) {
  using Json = nlohmann::ordered_json;
  Json limits = Json::array();
  for (const sim::Limit& limit : time.sim.limits) {
    limits.push_back({{"resource", limit.resource}, {"share", limit.share}});
  }
  Json parts = Json::array();
  for (std::size_t i = 0; i < time.sim.split.parts.size(); ++i) {
    const auto part = static_cast<sim::TimePart>(i);
    parts.push_back({{"part", name(part)}, {"time_s", time.sim.split.parts[i].value}});
  }
  const Throughput& t = time.throughput;
  const Json out = {{"step_s", time.sim.period.value},
                    {"first_step_s", time.sim.first_step.value},
                    {"tokens_per_s", t.tokens_per_second},
                    {"model_tflops_per_gpu", t.model_tflops_per_gpu},
                    {"hardware_tflops_per_gpu", t.hardware_tflops_per_gpu},
                    {"peak_tflops_per_gpu", t.peak_tflops},
                    {"mfu", t.mfu},
                    {"hfu", t.hfu},
                    {"limited_by", time.sim.limited_by},
                    {"limits", std::move(limits)},
                    {"split", {{"stage", time.sim.split.stage}, {"parts", std::move(parts)}}}};
  return out.dump();
}

}  // namespace zplan
