#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/cli/predict/prediction_output.h"

namespace zplan {

namespace {

constexpr double kWorthTelling = 0.005;  // elasticity

}  // namespace

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
  Json rests_on = Json::array();
  for (std::size_t k = 0; k < time.sim.reliances.size(); ++k) {
    const double elasticity = time.sim.reliances[k];
    if (std::abs(elasticity) < kWorthTelling) continue;
    rests_on.push_back(
        {{"constant", constant_name(static_cast<Constant>(k))}, {"elasticity", elasticity}});
  }
  const Throughput& t = time.throughput;
  const Certainty& certainty = time.certainty;
  Json exceeds;
  if (const auto& best = certainty.exceeded)
    exceeds = {
        {"device", best->device}, {"format", best->format}, {"mfu", best->mfu}, {"run", best->run}};
  const Json out = {{"step_s", time.sim.period.value},
                    {"interval",
                     {{"share", kIntervalPct / 100},
                      {"low_s", certainty.interval.low.value},
                      {"high_s", certainty.interval.high.value}}},
                    {"rests_on", std::move(rests_on)},
                    {"unknown", certainty.unknown},
                    {"exceeds", std::move(exceeds)},
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
