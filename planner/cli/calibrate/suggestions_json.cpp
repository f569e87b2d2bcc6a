#include <nlohmann/json.hpp>

#include "planner/cli/calibrate/suggestions.h"
#include "planner/cli/predict/anchor_output.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json value_part(const MeasurementValue& value) {
  return {{"changes_in_worlds", value.changes}, {"saves_share", value.saving}};
}

Json measurement_part(const Suggestion& row) {
  Json out = value_part(row.value);
  out["measure"] = row.benchmark.what;
  out["run"] = row.benchmark.run;
  out["minutes"] = row.benchmark.minutes;
  out["tells"] = row.tells;
  out["known_within"] = row.uncertainty;
  const auto& contender = row.benchmark.measurement.front().contender;
  out["step_of"] = contender ? Json(*contender) : Json();
  return out;
}

}  // namespace

std::string suggestions_json(const Suggestions& found) {
  const Answer& answer = found.answer;
  Json out = {{"schema", "zplan.suggestions/1"},     {"feasible", fits(answer)},
              {"model", answer.model.name},          {"cluster", answer.cluster.name},
              {"stack", answer.evidence.stack.name}, {"sequence", answer.sequence},
              {"global_batch", answer.global_batch}, {"worlds", kWorlds}};
  if (!fits(answer)) out["reason"] = misfit_line(answer);
  out["choice"] = fits(answer) ? Json(found.chosen) : Json();
  out["perfect"] = fits(answer) ? value_part(found.perfect) : Json();
  out["contenders"] = Json::array();
  for (const Contending& row : found.contenders)
    out["contenders"].push_back({{"family", name(family_of(row.plan))},
                                 {"step_s", row.predicted.value},
                                 {"expected_s", row.expected.value},
                                 {"fastest_in_worlds", row.fastest_in},
                                 {"plan", Json::parse(to_json(row.plan))}});
  out["suggestions"] = Json::array();
  for (const Suggestion& row : worth_telling(found))
    out["suggestions"].push_back(measurement_part(row));
  out["measurements"] = Json::array();
  for (const Suggestion& row : found.measurements)
    out["measurements"].push_back(measurement_part(row));
  if (!answer.anchors.empty()) out["anchors"] = Json::parse(anchors_json(answer.anchors));
  return out.dump(2) + "\n";
}

}  // namespace zplan
