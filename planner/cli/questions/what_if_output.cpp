#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hwprofiles/quantities.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/questions/what_if.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/search/quantity_use.h"

namespace zplan {
namespace {

constexpr double kNoDifference = 0.005;  // share of a step that is not called one
constexpr double kWorthTelling = 0.01;   // of a part of the step, as a share of it
constexpr std::size_t kMostParts = 3;
constexpr double kShown = 1e-5;  // of a part of the step, as a share of it
constexpr std::array<std::string_view, 2> kPlans{"for it as it is", "for it as changed"};

std::string step_words(const Crossing& on) {
  return on.sim ? format_seconds(on.sim->period) : on.lacking.empty() ? "-" : on.lacking;
}

Objective asked(const WhatIf& found) { return found.before.objective.question.what; }

std::string objective_of(const Answer& answer) {
  return objective_value(answer.objective, *objective_step(answer));
}

// Only what is proven is said to be so.
std::string no_gain(const WhatIf& found, const std::string& before, const std::string& after) {
  const double gap = found.after.search.stats.gap;
  const bool is_proven = gap <= kProvenGap;
  const std::string words =
      after == before
          ? fmt::format("{}: {} a step, as before", is_proven ? "No gain" : "No gain found", after)
          : fmt::format("Hardly a change: {} a step become {}", before, after);
  return is_proven ? words : fmt::format("{}; up to {} less is not excluded", words, percent(gap));
}

std::string verdict(const WhatIf& found) {
  if (asked(found) != Objective::kFastest && fits(found.before) && fits(found.after))
    return fmt::format("{}: {} as it is, {} with the change", name(asked(found)),
                       objective_of(found.before), objective_of(found.after));
  const std::string& lacked = found.on[kAsItIs][kAsItIs].lacking;
  const std::optional<Seconds> was = least_step(found, kAsItIs), is = least_step(found, kChanged);
  if (!was && !is)
    return fmt::format("Does not fit either way: {} as it is, {} with the change", lacked,
                       found.on[kChanged][kChanged].lacking);
  if (!was)
    return fmt::format("Fits with the change: {} a step; as it is {}", format_seconds(*is), lacked);
  const std::string before = format_seconds(*was);
  if (!is)
    return fmt::format("No longer fits: {}; as it is {} a step",
                       found.on[kChanged][kChanged].lacking, before);
  const double faster = was->value / is->value;
  if (std::abs(faster - 1) < kNoDifference) return no_gain(found, before, format_seconds(*is));
  if (faster < 1)
    return fmt::format("Slower by {}: {} a step become {}", percent(1 / faster - 1), before,
                       format_seconds(*is));
  return fmt::format("{:.2f} times as fast: {} a step become {}", faster, before,
                     format_seconds(*is));
}

// "exposed I/O reads 2.10 s -> 1.05 s", the parts of a step that differ most.
std::string moved_parts(const sim::SimResult& before, const sim::SimResult& after) {
  std::vector<std::pair<double, std::string>> moved;
  for (std::size_t i = 0; i < before.split.parts.size(); ++i) {
    const Seconds was = before.split.parts[i], is = after.split.parts[i];
    const double by = std::abs(was.value - is.value);
    if (by < kWorthTelling * before.period.value) continue;
    moved.emplace_back(-by, fmt::format("{} {} -> {}", name(static_cast<sim::TimePart>(i)),
                                        format_seconds(was), format_seconds(is)));
  }
  std::stable_sort(moved.begin(), moved.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> words;
  for (const auto& [by, text] : moved)
    if (words.size() < kMostParts) words.push_back(text);
  return joined(words, ", ");
}

// What is in use for most of the step.
std::string busiest_words(const sim::SimResult& step) {
  if (step.limits.empty()) return "";
  const sim::Limit& most = step.limits.front();
  return fmt::format("; {} is in use for {} of the step", most.resource, percent(most.share));
}

void add_same_plan(const WhatIf& found, std::vector<std::string>& lines) {
  const Crossing &was = found.on[kAsItIs][kAsItIs], &is = found.on[kAsItIs][kChanged];
  if (!was.sim) return;
  if (!is.sim) return lines.push_back(fmt::format("the plan as it is cannot stay: {}", is.lacking));
  const double by = is.sim->period.value / was.sim->period.value - 1;
  const std::string parts = moved_parts(*was.sim, *is.sim);
  if (std::abs(by) < kNoDifference)
    return lines.push_back(
        fmt::format("the plan as it is takes as long: what changes does not hold it up{}",
                    busiest_words(*was.sim)));
  lines.push_back(fmt::format("the plan as it is takes {} ({}{}){}{}",
                              format_seconds(is.sim->period), by > 0 ? "+" : "", percent(by),
                              parts.empty() ? "" : ": ", parts));
}

void add_other_plan(const WhatIf& found, std::vector<std::string>& lines) {
  if (found.decisions.empty()) {
    if (fits(found.before) && fits(found.after)) lines.emplace_back("the best plan is the same");
    return;
  }
  const Crossing &own = found.on[kChanged][kChanged], &before = found.on[kChanged][kAsItIs];
  const Crossing& stays = found.on[kAsItIs][kChanged];
  std::string line = fmt::format("another plan takes {}", format_seconds(own.sim->period));
  line += before.sim
              ? fmt::format("; on the hardware as it is it takes {}",
                            format_seconds(before.sim->period))
              : fmt::format("; on the hardware as it is it is not possible: {}", before.lacking);
  lines.push_back(line);
  if (asked(found) != Objective::kFastest) return;
  if (before.sim && before.sim->period < found.on[kAsItIs][kAsItIs].sim->period)
    lines.push_back(
        "so much of the difference is the search's: it answers with the simplest within "
        "2 % of the fastest that it finds");
  if (stays.sim && stays.sim->period < own.sim->period)
    lines.push_back(
        "the plan as it is takes less there: that one is simpler, or the search found "
        "none as fast");
}

// What holds the step up, and what the changes have to do with it.
std::vector<std::string> why(const WhatIf& found) {
  std::vector<std::string> lines;
  if (fits(found.before)) {
    const FoundPlan& best = *found.before.best;
    for (const ValueSource& change : found.after.cluster.sources) {
      if (change.source != kGiven) continue;
      const std::string use = use_words(change.pointer, best.time.sim, best.memory.use);
      if (!use.empty()) lines.push_back(fmt::format("{}: {}", change.pointer, use));
    }
  }
  add_same_plan(found, lines);
  add_other_plan(found, lines);
  return lines;
}

std::string limits_words(const Crossing& on) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> words;
  if (on.sim)
    for (const sim::Limit& limit : on.sim->limits)
      if (words.size() < kShown)
        words.push_back(fmt::format("{} {}", limit.resource, percent(limit.share)));
  return joined(words, ", ");
}

Sheet side(const Answer& answer, const Crossing& own) {
  const bool fit = fits(answer);
  return {{"feasible", fit},
          {"step_s", fit ? Value(answer.best->time.sim.period) : nullptr},
          {"tokens_per_s", fit ? Value(answer.best->time.throughput.tokens_per_second) : nullptr},
          {"gap", answer.search.stats.gap},
          {"objective",
           objective_sheet(answer.objective, objective_step(answer), answer.search.stats.gap)},
          {"lacking", own.lacking},
          {"limits", limits_words(own)},
          {"plan", fit ? as_json(to_json(answer.best->planned.plan)) : nullptr},
          {"fingerprint", fit ? Value(answer.best->planned.fingerprint) : nullptr}};
}

// Both plans on both.
Table crossings_table(const WhatIf& found) {
  Table table({"plan: plan found", "as_it_is: as it is", "changed"});
  for (std::size_t plan = 0; plan < kPlans.size(); ++plan) {
    const auto cell = [&](Hardware where) {
      const Crossing& on = found.on[plan][where];
      return Value(on.sim ? Value(on.sim->period.value) : nullptr, step_words(on));
    };
    table.row({{"plan", kPlans[plan]}, {"as_it_is", cell(kAsItIs)}, {"changed", cell(kChanged)}});
  }
  return table;
}

Table parts_table(const WhatIf& found) {
  Table table({"part", "before_s: before", "same_plan_s: same plan", "after_s: after"});
  const Crossing* const steps[] = {&found.on[kAsItIs][kAsItIs], &found.on[kAsItIs][kChanged],
                                   &found.on[kChanged][kChanged]};
  for (int p = 0; p < sim::kTimePartCount; ++p) {
    bool shown = false;
    const auto cell = [&](const Crossing* on) {
      if (!on->sim) return right("-");
      const Seconds part = on->sim->split.parts[static_cast<std::size_t>(p)];
      shown = shown || part.value > kShown * on->sim->period.value;
      return right(part);
    };
    Value cells[] = {cell(steps[0]), cell(steps[1]), cell(steps[2])};
    for (std::size_t i = 0; i < 3; ++i)
      if (!steps[i]->sim) cells[i] = Value(nullptr, "-");
    table.row({{"part", name(static_cast<sim::TimePart>(p))},
               {"before_s", cells[0]},
               {"same_plan_s", cells[1]},
               {"after_s", cells[2]}},
              shown);
  }
  return table;
}

// For people a paragraph each.
void say_changes(Sheet& out, const Cluster& cluster) {
  Table table({"quantity", "value", "in_place_of"});
  for (const ValueSource& change : cluster.sources) {
    if (change.source != kGiven) continue;
    table.row({{"quantity", change.pointer}, {"value", change.value}, {"in_place_of", change.ref}});
    out.print(
        paragraph(fmt::format("{} {} {}", change.pointer, change.value, change.ref), kIndent));
  }
  out.fact("changes", table.json());
}

Table decisions_table(const WhatIf& found) {
  Table table({"decision", "before", "after"});
  for (const DecisionChange& change : found.decisions)
    table.row({{"decision", change.pointer}, {"before", change.before}, {"after", change.after}});
  return table;
}

Table alone_table(const WhatIf& found) {
  Table table({"quantity: changed alone", "value: to", "step_s: same plan"});
  for (const WhatIf::Alone& one : found.alone)
    table.row({{"quantity", one.quantity}, {"value", one.value}, {"step_s", right(one.step)}});
  return table;
}

void say_side(Sheet& out, std::string_view label, const Answer& answer, const Crossing& own) {
  out.heading(label == "Before" ? Form("Before") : Form("After"));
  if (!fits(answer)) return out.print(paragraph(own.lacking, kIndent));
  for (const std::string& line : plan_lines(answer.best->planned.plan))
    out.print(paragraph(line, kIndent));
  out.print(paragraph("limited by " + limits_words(own), kIndent));
}

}  // namespace

Sheet what_if_sheet(const WhatIf& found) {
  Sheet out("zplan.what_if/1");
  const std::string line = verdict(found);
  const std::vector<std::string> reasons = why(found);
  out.facts({{"verdict", line},
             {"model", found.before.model.name},
             {"cluster", found.before.cluster.name},
             {"changes", nullptr},
             {"before", side(found.before, found.on[kAsItIs][kAsItIs])},
             {"after", side(found.after, found.on[kChanged][kChanged])},
             {"why", reasons}});
  out.print(line + "\n\n");
  out.print(fmt::format("{} on {} ({})\n", found.before.model.name, found.before.cluster.name,
                        cluster_words(found.before.cluster)));
  say_changes(out, found.after.cluster);
  out.print("\nWhy\n");
  for (const std::string& reason : reasons) out.print(paragraph(reason, kIndent));
  out.print("\nA step of either plan on either hardware\n");
  out.table("crossings", crossings_table(found), kIndent);
  if (!found.alone.empty()) out.print("\nOne change at a time\n");
  out.table("alone", alone_table(found), kIndent);
  out.print("\nWhere the step goes\n");
  out.table("parts", parts_table(found), kIndent);
  if (!found.decisions.empty()) out.print("\nDecisions that changed\n");
  out.table("decisions", decisions_table(found), kIndent);
  say_side(out, "Before", found.before, found.on[kAsItIs][kAsItIs]);
  if (!found.decisions.empty() || !fits(found.before))
    say_side(out, "After", found.after, found.on[kChanged][kChanged]);
  return out;
}

}  // namespace zplan
