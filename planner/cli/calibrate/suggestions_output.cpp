#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/calibrate/suggestions.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"

namespace zplan {
namespace {

std::string worlds(int count) { return fmt::format("{} of {} worlds", count, kWorlds); }

Sheet value_sheet(const MeasurementValue& value) {
  return {{"changes_in_worlds", {value.changes, worlds(value.changes)}},
          {"saves_share", {value.saving, fmt::format("{:.2g} %", 100 * value.saving)}}};
}

Value contenders(const Suggestions& found) {
  Table table(
      {"words:", "step_s: predicted", "expected_s: expected", "fastest_in_worlds: fastest in"});
  for (std::size_t i = 0; i < found.contenders.size(); ++i) {
    const Contending& row = found.contenders[i];
    const std::string star = i == found.chosen ? "* " : "  ";
    table.row({{"family", name(family_of(row.plan))},
               {"step_s", row.predicted},
               {"expected_s", row.expected},
               {"fastest_in_worlds", {row.fastest_in, worlds(row.fastest_in)}},
               {"plan", as_json(to_json(row.plan))},
               {"words", only_words(star + short_words(row.plan))}});
  }
  Sheet text;
  text.labelled("Contenders", table.text(kLabelWidth));
  return {table.json(), text.text()};
}

Sheet measurement_sheet(const Suggestion& row, std::string_view label) {
  const Benchmark& benchmark = row.benchmark;
  Sheet out = value_sheet(row.value);
  out.facts({{"measure", benchmark.what},
             {"run", benchmark.run},
             {"minutes", number("{:.0f}", benchmark.minutes)},
             {"tells", row.tells},
             {"known_within", {row.uncertainty, fmt::format("{:.0f} %", 100 * row.uncertainty)}},
             {"step_of", benchmark.measurement.front().contender}});
  out.entry(label, "{measure}");
  out.entry("",
            "  changes the choice in {changes_in_worlds}, saves {saves_share} of a step on "
            "average; takes about {minutes} min");
  const bool many = row.tells.size() > 6;
  out.entry("", "  tells {}; now known within {known_within}",
            {many ? fmt::format("{} constants", row.tells.size()) : out["tells"].words});
  for (const std::string& line : benchmark.run)
    out.print(fmt::format("{:<{}}  {}\n", "", kLabelWidth, line));
  return out;
}

Value measurements(const std::vector<Suggestion>& rows) {
  return each(rows, [label = "Measure"](const Suggestion& row) mutable {
    return measurement_sheet(row, std::exchange(label, ""));
  });
}

void say_choice(Sheet& out, const Suggestions& found) {
  out.entry("Choice", "*, of least expected time: {}. Knowing everything would save {} on average",
            {found.chosen == 0 ? "the plan of `zplan plan`"
                               : "not the plan of `zplan plan`, which stands first",
             value_sheet(found.perfect)["saves_share"].words});
}

void say_nothing_helps(Sheet& out, const Suggestions& found) {
  if (found.contenders.size() == 1)
    return out.entry("Measure",
                     "nothing: no other family of plans comes near, so no measurement would change "
                     "the choice");
  const bool changes = std::ranges::any_of(
      found.measurements, [](const Suggestion& row) { return row.value.changes > 0; });
  out.entry("Measure",
            changes ? Form("nothing: no measurement would save 0.05 % of a step on average; the "
                           "choice is fastest in {}")
                    : Form("nothing: no measurement would change the choice; it is fastest in {}"),
            {worlds(found.contenders[found.chosen].fastest_in)});
}

}  // namespace

Sheet suggestions_sheet(const Suggestions& found) {
  const Answer& answer = found.answer;
  const bool known = fits(answer);
  Sheet out("zplan.suggestions/1");
  out.facts({{"feasible", known},
             {"model", answer.model.name},
             {"cluster", answer.cluster.name},
             {"stack", answer.evidence.stack.name},
             {"sequence", answer.sequence},
             {"global_batch", counted(answer.global_batch, "sequence")},
             {"worlds", kWorlds},
             {"reason", known ? left_out() : misfit_line(answer)},
             {"choice", known ? Value(found.chosen) : nullptr},
             {"perfect", known ? Value(value_sheet(found.perfect)) : nullptr},
             {"contenders", contenders(found)},
             {"suggestions", measurements(worth_telling(found))},
             {"measurements", measurements(found.measurements)},
             {"anchors", anchors_value(answer.anchors)}});
  out.show({"anchors"});
  out.entry("Model", "{model}: sequence {sequence} tokens, global batch {global_batch}");
  out.entry("Cluster", "{cluster}: {}", {cluster_words(answer.cluster)});
  if (found.contenders.empty()) return out;
  out.print("\n");
  out.show({"contenders"});
  say_choice(out, found);
  out.print("\n");
  out.show({"suggestions"});
  if (out["suggestions"].words.empty()) say_nothing_helps(out, found);
  return out;
}

}  // namespace zplan
