#include "planner/cli/questions/what_if.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/quantities.h"
#include "hwprofiles/seating.h"
#include "planner/cli/frame/words.h"

namespace zplan {
namespace {

Crossing of_answer(const Answer& answer) {
  if (fits(answer)) return {answer.best->time.sim, ""};
  const auto& closest = answer.search.closest;
  return {{}, closest ? shortage(*closest->infeasible) : "no plan of the space fits"};
}

Crossing cross(const Answer& plan_of, const Cluster& cluster) {
  if (!fits(plan_of)) return {};
  const PlannedJob& planned = plan_of.best->planned;
  const int devices = Seating(cluster, planned.job.mesh.gpus).devices();
  if (planned.job.world() > devices)
    return {{}, fmt::format("needs {} devices, {} are there", planned.job.world(), devices)};
  if (const auto why = predict_memory(planned, cluster).infeasible) return {{}, shortage(*why)};
  return {sim::simulate(planned.job, cluster), ""};
}

// Each change by itself, in the order in which they were given.
std::vector<WhatIf::Alone> alone(const WhatIfCommand& command, const Answer& before) {
  const std::vector<QuantityChange> changes = parse_changes(command.question.changes);
  std::vector<WhatIf::Alone> rows;
  if (changes.size() < 2 || !fits(before)) return rows;
  for (const QuantityChange& change : changes) {
    Answer other = before;
    other.cluster = with_changes(before.cluster, {&change, 1});
    const Crossing step = cross(before, other.cluster);
    if (!step.sim) continue;
    rows.push_back(
        {std::string(change.quantity->name), other.cluster.sources.back().value, step.sim->period});
  }
  return rows;
}

}  // namespace

WhatIf find_what_if(const WhatIfCommand& command) {
  PlanCommand as_it_is = command.question;
  as_it_is.changes.clear();
  Answer before = find_answer(as_it_is);
  const PlanCommand changed = with_software_of(command.question, before);
  WhatIf found{.before = std::move(before),
               .after = find_answer(changed),
               .on = {},
               .alone = {},
               .decisions = {}};
  found.on[kAsItIs][kAsItIs] = of_answer(found.before);
  found.on[kAsItIs][kChanged] = cross(found.before, found.after.cluster);
  found.on[kChanged][kAsItIs] = cross(found.after, found.before.cluster);
  found.on[kChanged][kChanged] = of_answer(found.after);
  found.alone = alone(command, found.before);
  if (fits(found.before) && fits(found.after))
    found.decisions =
        plan_difference(found.before.best->planned.plan, found.after.best->planned.plan);
  return found;
}

std::optional<Seconds> least_step(const WhatIf& found, Hardware where) {
  std::optional<Seconds> least;
  for (const auto& plan : found.on)
    if (plan[where].sim && !(least && *least < plan[where].sim->period))
      least = plan[where].sim->period;
  return least;
}

}  // namespace zplan
