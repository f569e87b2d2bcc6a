#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/calibrate/suggestions.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/anchor_output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

constexpr std::size_t kLabelWidth = 12;

std::string entry(std::string_view label, std::string_view text) {
  return fmt::format("{:<{}}{}\n", label, kLabelWidth,
                     wrap(text, kScreenWidth, kLabelWidth, kLabelWidth));
}

std::string saved(double share) { return fmt::format("{:.2g} %", 100 * share); }

std::string worlds(int count) { return fmt::format("{} of {} worlds", count, kWorlds); }

std::string contender_part(const Suggestions& found) {
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight},
              {"", "predicted", "expected", "fastest in"});
  for (std::size_t i = 0; i < found.contenders.size(); ++i) {
    const Contending& row = found.contenders[i];
    table.row({(i == found.chosen ? "* " : "  ") + short_words(row.plan),
               format_seconds(row.predicted), format_seconds(row.expected),
               worlds(row.fastest_in)});
  }
  return fmt::format("{:<{}}{}", "Contenders", kLabelWidth,
                     table.text(kLabelWidth).substr(kLabelWidth));
}

std::string choice_part(const Suggestions& found) {
  const std::string first = found.chosen == 0 ? "the plan of `zplan plan`"
                                              : "not the plan of `zplan plan`, which stands first";
  return entry("Choice", fmt::format("*, of least expected time: {}. Knowing everything would save "
                                     "{} on average",
                                     first, saved(found.perfect.saving)));
}

std::string none_part(const Suggestions& found) {
  const int fastest = found.contenders[found.chosen].fastest_in;
  if (found.contenders.size() == 1)
    return entry("Measure",
                 "nothing: no other family of plans comes near, so no measurement would "
                 "change the choice");
  const bool changes = std::ranges::any_of(
      found.measurements, [](const Suggestion& row) { return row.value.changes > 0; });
  return entry("Measure",
               changes ? fmt::format("nothing: no measurement would save 0.05 % of a step on "
                                     "average; the choice is fastest in {}",
                                     worlds(fastest))
                       : fmt::format("nothing: no measurement would change the choice; it is "
                                     "fastest in {}",
                                     worlds(fastest)));
}

std::string suggestion_part(const Suggestion& row, bool first) {
  const Benchmark& benchmark = row.benchmark;
  std::string out = entry(first ? "Measure" : "", benchmark.what);
  const std::string tells = row.tells.size() > 6 ? fmt::format("{} constants", row.tells.size())
                                                 : fmt::format("{}", fmt::join(row.tells, ", "));
  out +=
      entry("", fmt::format("  changes the choice in {}, saves {} of a step on average; takes "
                            "about {:.0f} min",
                            worlds(row.value.changes), saved(row.value.saving), benchmark.minutes));
  out +=
      entry("", fmt::format("  tells {}; now known within {:.0f} %", tells, 100 * row.uncertainty));
  for (const std::string& line : benchmark.run)
    out += fmt::format("{:<{}}  {}\n", "", kLabelWidth, line);
  return out;
}

}  // namespace

std::string suggestions_text(const Suggestions& found) {
  const Answer& answer = found.answer;
  std::string out = anchors_text(answer.anchors);
  out += entry("Model",
               fmt::format("{}: sequence {} tokens, global batch {}", answer.model.name,
                           grouped(answer.sequence), count_of(answer.global_batch, "sequence")));
  out += entry("Cluster", answer.cluster.name + ": " + cluster_words(answer.cluster));
  if (found.contenders.empty()) return out;
  out += "\n" + contender_part(found) + choice_part(found) + "\n";
  const std::vector<Suggestion> best = worth_telling(found);
  if (best.empty()) return out + none_part(found);
  for (std::size_t i = 0; i < best.size(); ++i) out += suggestion_part(best[i], i == 0);
  return out;
}

}  // namespace zplan
