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

// A lane of the busiest stage of either plan. What it holds the step up with: of the compute lane
// all that it does, of others what they do while that one is idle.
struct LaneTime {
  Lane lane{};
  Seconds pinned{}, free{};  // busy
  Seconds pinned_holds{}, free_holds{};
  Seconds more() const { return pinned_holds - free_holds; }
};
using LaneTimes = std::vector<LaneTime>;

LaneTimes lane_times(const FoundPlan& pinned, const FoundPlan& free) {
  LaneTimes times(kLaneCount);
  for (std::size_t l = 0; l < times.size(); ++l) times[l].lane = static_cast<Lane>(l);
  const auto add = [&](const sim::SimResult& sim, Seconds LaneTime::*busy,
                       Seconds LaneTime::*holds) {
    for (const sim::LaneReport& report : sim.lanes) {
      if (report.stage != sim.split.stage) continue;
      LaneTime& time = times[static_cast<std::size_t>(report.lane)];
      time.*busy = report.busy;
      time.*holds = report.lane == Lane::kCompute ? report.busy : report.exposed;
    }
  };
  add(pinned.time.sim, &LaneTime::pinned, &LaneTime::pinned_holds);
  add(free.time.sim, &LaneTime::free, &LaneTime::free_holds);
  return times;
}

Table lanes_table(const LaneTimes& times) {
  Table table({"lane: lane, busy", "pinned_s: with the pins", "free_s: without",
               "holds: holds the step up by"});
  for (const LaneTime& time : times)
    table.row({{"lane", name(time.lane)},
               {"pinned_s", time.pinned},
               {"free_s", time.free},
               {"pinned_holds_s", time.pinned_holds},
               {"free_holds_s", time.free_holds},
               {"holds", only_words(right({time.more(), signed_words(time.more())}))}},
              time.pinned.value > 0 || time.free.value > 0);
  return table;
}

// The lane that holds the step up most beyond what it does in the other plan.
std::string lane_words(const FoundPlan& pinned, const FoundPlan& free) {
  const LaneTimes times = lane_times(pinned, free);
  const auto most =
      std::max_element(times.begin(), times.end(),
                       [](const LaneTime& a, const LaneTime& b) { return a.more() < b.more(); });
  if (most->more().value <= 0) return "no lane holds it up longer: it waits for other stages";
  const std::string busy =
      fmt::format("the lane behind it is {}: busy for {} against {}", name(most->lane),
                  format_seconds(most->pinned), format_seconds(most->free));
  if (most->lane == Lane::kCompute) return busy;
  return fmt::format("{}, with the compute lane idle {} against {}", busy,
                     format_seconds(most->pinned_holds), format_seconds(most->free_holds));
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
  return fmt::format("{} behind ({}): {}; most of it {} more of {}; {}",
                     format_seconds(with - without), percent(with.value / without.value - 1), steps,
                     format_seconds(more), name(use), lane_words(pinned, free));
}

// "does not fit: 12 GiB .. at backward.fc2; ..; smallest change"
std::string misfit_words(const Answer& pinned) {
  const std::optional<Candidate>& closest = pinned.search.closest;
  if (!closest) return "no such plan is legal";
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
  out.table("lanes", lanes_table(lane_times(*pinned, *free)));
  out.print("\n");
  out.table("memory", memory_table(*pinned, *free));
  return out;
}

}  // namespace zplan
