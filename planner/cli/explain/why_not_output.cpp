#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "planner/cli/answer/verdict.h"
#include "planner/cli/explain/why_not.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string signed_words(Seconds time) {
  const std::string size = format_seconds(Seconds{std::abs(time.value)});
  return (time.value < 0 ? "-" : "+") + size;
}

// The part of the step that grows most, and by how much.
std::pair<sim::StepUse, Seconds> most_behind(const FoundPlan& pinned, const FoundPlan& free) {
  std::pair<sim::StepUse, Seconds> most{};
  for (int u = 0; u < sim::kStepUseCount; ++u) {
    const auto use = static_cast<sim::StepUse>(u);
    const Seconds more = pinned.time.split.part(use) - free.time.split.part(use);
    if (more > most.second) most = {use, more};
  }
  return most;
}

// The differences add up to that of the steps.
Table split_table(const FoundPlan& pinned, const FoundPlan& free) {
  Table table({"name: of a step", "pinned_s: with the pins", "free_s: without",
               "difference_s: difference"});
  for (int u = 0; u < sim::kStepUseCount; ++u) {
    const auto use = static_cast<sim::StepUse>(u);
    const Seconds with = pinned.time.split.part(use), without = free.time.split.part(use);
    const Seconds more = with - without;
    table.row({{"part", key(use)},
               {"name", name(use)},
               {"pinned_s", with},
               {"free_s", without},
               {"difference_s", right({more, signed_words(more)})}},
              with.value > 0 || without.value > 0);
  }
  return table;
}

Table memory_table(const FoundPlan& pinned, const FoundPlan& free) {
  Table table({"tier: memory", "pinned_bytes: with the pins", "free_bytes: without"});
  for (const Tier tier : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) {
    const auto t = static_cast<std::size_t>(tier);
    const Bytes with = pinned.memory.use[t].peak, without = free.memory.use[t].peak;
    table.row(
        {{"tier", {name(tier), tier_words(tier)}}, {"pinned_bytes", with}, {"free_bytes", without}},
        with.value > 0 || without.value > 0);
  }
  return table;
}

std::string behind_line(const FoundPlan& pinned, const FoundPlan& free) {
  const Seconds with = pinned.time.sim.period, without = free.time.sim.period;
  const std::string steps =
      fmt::format("{} against {} a step", format_seconds(with), format_seconds(without));
  if (pinned.planned.fingerprint == free.planned.fingerprint)
    return "the recommended plan has these pins: " + steps;
  const auto [use, more] = most_behind(pinned, free);
  if (with <= without)
    return fmt::format(
        "{}, no slower: the plan without these pins is simpler, or the search ended "
        "with a gap before it came to them",
        steps);
  return fmt::format("{} behind ({}): {}; most of it {} more of {}", format_seconds(with - without),
                     percent(with.value / without.value - 1), steps, format_seconds(more),
                     name(use));
}

// "does not fit: 12 GiB .. at backward.fc2; ..; smallest change"
std::string misfit_words(const Answer& pinned) {
  const std::optional<Candidate>& closest = pinned.search.closest;
  if (!closest) return "no plan has these pins";
  return fmt::format("{} missing: {}",
                     format_bytes(closest->infeasible->needed - closest->infeasible->available),
                     full_reason(*closest->infeasible));
}

}  // namespace

Sheet why_not_sheet(const WhyNot& found) {
  const std::optional<FoundPlan>&pinned = found.pinned.best, &free = found.free.best;
  const std::string verdict = !fits(found.pinned) ? "does not fit: " + misfit_words(found.pinned)
                              : free              ? behind_line(*pinned, *free)
                                                  : "fits";
  const std::optional<Candidate>& closest = found.pinned.search.closest;
  Sheet out("zplan.why_not/1");
  out.facts({{"verdict", verdict},
             {"feasible", fits(found.pinned)},
             {"infeasible", closest ? misfit(closest->infeasible) : Value()},
             {"pinned", nullptr},
             {"free", nullptr}});
  out.say("{verdict}");
  const auto plan = [&](const char* key, const char* title, const Answer& answer) {
    if (!answer.best) return;
    const FoundPlan& best = *answer.best;
    out.fact(key, Sheet{{"step_s", best.time.sim.period},
                        {"gap", answer.search.stats.gap},
                        {"plan", as_json(to_json(best.planned.plan))}});
    out.print("\n" + paragraph(fmt::format("{}: {}", title, verdict_line(answer))));
    for (const std::string& line : plan_lines(best.planned.plan, best.planned.model))
      out.print(paragraph(line, 2));
  };
  plan("pinned", "With the pins", found.pinned);
  plan("free", "Without", found.free);
  if (!pinned || !free) return out;
  out.print("\n");
  out.table("split", split_table(*pinned, *free));
  out.print("\n");
  out.table("memory", memory_table(*pinned, *free));
  return out;
}

}  // namespace zplan
