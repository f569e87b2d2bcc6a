#include "planner/cli/predict/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/homes_output.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

Value time_or_dash(Seconds time) { return {time, time.value > 0 ? format_seconds(time) : "-"}; }

Table lanes_table(const std::vector<sim::LaneReport>& lanes) {
  Table table({"stage", "lane", "busy_s: busy", "busy_share: share", "exposed_s: exposed",
               "peer_wait_s: peer wait", "reuse_wait_s: reuse wait", "launch_wait_s: launch wait"});
  for (const sim::LaneReport& lane : lanes)
    table.row({{"stage", lane.stage},
               {"lane", name(lane.lane)},
               {"busy_share", share(lane.busy_share)},
               {"busy_s", lane.busy},
               {"exposed_s", time_or_dash(lane.exposed)},
               {"latency_s", lane.latency},
               {"peer_wait_s", time_or_dash(lane.peer_wait)},
               {"reuse_wait_s", time_or_dash(lane.reuse_wait)},
               {"launch_wait_s", time_or_dash(lane.launch_wait)}});
  return table;
}

// What comes of buffers sharing addresses. A wait of the compute lane costs the step that much; one
// of another lane may be hidden.
std::string reuse_line(const std::vector<sim::LaneReport>& lanes, Seconds period) {
  Seconds compute{0}, other{0};
  for (const sim::LaneReport& lane : lanes) {
    Seconds& worst = lane.lane == Lane::kCompute ? compute : other;
    worst = std::max(worst, lane.reuse_wait);
  }
  if (compute.value <= 0 && other.value <= 0) return "No lane waits for the reuse of memory.";
  return fmt::format(
      "Reuse of memory alone holds up: compute {} ({} of the step), others up to {}.",
      format_seconds(compute), percent(compute.value / period.value), format_seconds(other));
}

// Links of one kind carry the same more often than not: one line for those that do.
std::string links_text(const std::vector<sim::LinkReport>& links) {
  struct Group {
    const sim::LinkReport* first;
    int count;
  };
  std::vector<Group> groups;
  for (const sim::LinkReport& link : links) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.first->kind == link.kind &&
             percent(g.first->utilisation) == percent(link.utilisation) &&
             percent(g.first->busy_share) == percent(link.busy_share);
    });
    if (same == groups.end()) {
      groups.push_back({&link, 1});
    } else {
      ++same->count;
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.first->utilisation > b.first->utilisation;
  });
  Table table({"link", "kind", "used", "busy"});
  for (const auto& [first, count] : groups) {
    const std::string more = count > 1 ? fmt::format(" and {} alike", count - 1) : "";
    table.words_row(
        {first->name + more, first->kind, share(first->utilisation), share(first->busy_share)});
  }
  return table.text(kIndent);
}

Sheet link_sheet(const sim::LinkReport& link) {
  return {{"name", link.name},
          {"kind", link.kind},
          {"utilisation", link.utilisation},
          {"busy_share", link.busy_share}};
}

}  // namespace

Sheet simulation_sheet(const Simulation& simulation) {
  const Value anchors = anchors_value(simulation.anchors);
  const Sheet memory = memory_sheet(simulation.memory, kIndent);
  Sheet out("zplan.simulation/1");
  const Value calibration = memory_calibration_value(simulation.memory_calibration);
  out.print(anchors.words + calibration.words);
  say_plan(out, simulation.planned, simulation.cluster, simulation.memory, memory);
  out.facts({{"time", nullptr}, {"anchors", anchors}, {"memory_calibration", calibration}});
  if (!simulation.time) return out;
  const sim::SimResult& sim = simulation.time->sim;
  const Sheet time = time_sheet(simulation.planned, *simulation.time, kIndent);
  out.facts({{"time", time},
             {"steps", counted(sim.steps, "step")},
             {"steady", sim.steady},
             {"ops", sim.ops}});
  out.heading("Time ({steps} simulated)");
  out.show({"time"});
  out.say("limited by {}", {time["limits"].words}, kIndent);
  out.say("certainty: {}", {time["certainty"].words}, kIndent);
  out.print(fmt::format("\nWhere the time of stage {} goes\n", sim.split.stage));
  out.print(time["step_split"].words);
  out.heading("Lanes (of one rank per stage; times per step)");
  out.table("lanes", lanes_table(sim.lanes), kIndent);
  out.print("  " + reuse_line(sim.lanes, sim.period) + "\n");
  out.fact("links", each(sim.links, link_sheet));
  if (!sim.links.empty()) out.print("\nLinks\n" + links_text(sim.links));
  say_memory(out, memory);
  if (simulation.homes) {
    out.print("\nHomes of what is kept for backward, in the same memory\n");
    const Sheet homes = homes_sheet(*simulation.homes, kIndent);
    out.fact("homes", homes);
    out.print(homes.text());
  }
  out.heading("Fingerprint {fingerprint}");
  return out;
}

}  // namespace zplan
