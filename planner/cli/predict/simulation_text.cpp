#include "planner/cli/predict/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/anchor_output.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

constexpr std::size_t kIndent = 2;

std::string time_or_none(Seconds time) {
  return time.value > 0 ? format_seconds(time) : std::string("-");
}

std::string lanes_part(const std::vector<sim::LaneReport>& lanes) {
  Table table(
      {Align::kRight, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
       Align::kRight, Align::kRight},
      {"stage", "lane", "busy", "share", "exposed", "peer wait", "reuse wait", "launch wait"});
  for (const sim::LaneReport& lane : lanes) {
    table.row({std::to_string(lane.stage), std::string(name(lane.lane)), format_seconds(lane.busy),
               percent(lane.busy_share), time_or_none(lane.exposed), time_or_none(lane.peer_wait),
               time_or_none(lane.reuse_wait), time_or_none(lane.launch_wait)});
  }
  return table.text(kIndent);
}

// Parts that take no time are left out.
std::string split_part(const TimePrediction& time) {
  const sim::TimeSplit& split = time.sim.split;
  Table table({Align::kLeft, Align::kRight, Align::kRight});
  for (std::size_t i = 0; i < split.parts.size(); ++i) {
    const Seconds part = split.parts[i];
    if (part.value <= 0) continue;
    table.row({std::string(name(static_cast<sim::TimePart>(i))), format_seconds(part),
               percent(part.value / time.sim.period.value)});
  }
  return table.text(kIndent);
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
std::string links_part(const std::vector<sim::LinkReport>& links) {
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
  Table table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight},
              {"link", "kind", "used", "busy"});
  for (const Group& group : groups) {
    const std::string more = group.count > 1 ? fmt::format(" and {} alike", group.count - 1) : "";
    table.row({group.first->name + more, group.first->kind, percent(group.first->utilisation),
               percent(group.first->busy_share)});
  }
  return table.text(kIndent);
}

}  // namespace

std::string simulation_text(const Simulation& simulation) {
  const TimePrediction& time = *simulation.time;
  const PlannedJob& planned = simulation.planned;
  std::string out = anchors_text(simulation.anchors) + over_text(simulation.memory);
  out += fmt::format("{} on {} ({})\n", planned.model.name, simulation.cluster.name,
                     cluster_words(simulation.cluster));
  for (const std::string& line : plan_lines(planned.plan)) {
    out += std::string(kIndent, ' ') + wrap(line, kScreenWidth, 2 * kIndent, kIndent) + "\n";
  }
  out += fmt::format("\nTime ({} simulated)\n", count_of(time.sim.steps, "step"));
  out += time_text(time, kIndent);
  out += fmt::format("  limited by {}\n", wrap(limits_text(time), kScreenWidth, 4, 13));
  out +=
      fmt::format("  certainty: {}\n", wrap(certainty_text(time.certainty), kScreenWidth, 4, 13));
  out +=
      fmt::format("\nWhere the time of stage {} goes\n", time.sim.split.stage) + split_part(time);
  out += "\nLanes (of one rank per stage; times per step)\n" + lanes_part(time.sim.lanes);
  out += "  " + reuse_line(time.sim.lanes, time.sim.period) + "\n";
  if (!time.sim.links.empty()) out += "\nLinks\n" + links_part(time.sim.links);
  out += "\nMemory\n" + memory_text(simulation.memory, kIndent);
  out += "\nPlacement (of one rank; ratio: slab over live peak)\n" +
         placement_text(simulation.memory.report, kIndent);
  out += fmt::format("\nFingerprint {}\n", planned.fingerprint);
  return out;
}

}  // namespace zplan
