#include "planner/cli/predict/homes_output.h"

#include <fmt/format.h>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/plan/choices.h"

namespace zplan {
namespace {

// As --recompute takes them back: "norm+fc1@cpu:12,none".
std::string runs_words(const Plan& plan) {
  std::vector<std::string> runs;
  for (const RecomputeRun& run : plan.recompute) {
    std::string words = run.mode == Recompute::kOperators ? joined(words_of(run), "+")
                                                          : std::string(name(run.mode));
    if (run.layers > 0) words += fmt::format(":{}", run.layers);
    runs.push_back(std::move(words));
  }
  return joined(runs, ",");
}

std::string marginal_words(const std::optional<double>& seconds) {
  return seconds ? format_seconds(Seconds{*seconds}) : "unknown";
}

std::string_view source_words(std::string_view source) { return source.empty() ? "-" : source; }

}  // namespace

Sheet homes_sheet(const HomesComparison& homes, std::size_t indent) {
  Sheet out{{"families", nullptr},
            {"seconds_per_gib_less", homes.seconds_per_gib_less},
            {"seconds_per_gib_more", homes.seconds_per_gib_more}};
  Table table({"homes", "source", "step_s: step", "gpu_bytes: GPU, each"});
  for (const HomesFamily& family : homes.families) {
    Sheet row{{"homes", family.name}, {"source", source_words(family.source)}};
    row.fact("step_s", family.step ? Value(*family.step) : Value(nullptr, "does not fit"));
    row.fact("gpu_bytes", family.step  ? Value(family.gpu)
                          : family.why ? Value(nullptr, format_bytes(family.why->needed))
                                       : Value(nullptr, "-"));
    row.fact("recompute", family.plan ? Value(runs_words(*family.plan)) : Value());
    row.fact("activations",
             family.plan ? Value(name(family.plan->placement.activations)) : Value());
    table.row(row);
  }
  out.table("families", table, indent);
  if (homes.families.empty()) {
    out.say("cut into tiles, chunks or parts of checkpoints: no homes to choose", indent);
    return out;
  }
  const HomesFamily& best = homes.families.back();
  if (!best.plan || !best.step) return out;
  out.say("best: --recompute {} --activations {}",
          {runs_words(*best.plan), name(best.plan->placement.activations)}, indent);
  out.say("a GiB of GPU memory less costs {} a step, one more gains {} (each simulated)",
          {marginal_words(homes.seconds_per_gib_less), marginal_words(homes.seconds_per_gib_more)},
          indent);
  return out;
}

}  // namespace zplan
