// What `zplan simulate` says of lanes and links, and what limits a step.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "planner/cost/step_totals.h"
#include "planner/search/explanation_parts.h"

namespace zplan {
namespace {

// Operations of a lane, each alone, by role.
std::vector<Term> alone(const CostModel& cost, const sim::LaneReport& lane) {
  const Program& program = cost.job().classes[static_cast<std::size_t>(lane.stage)].program;
  const std::vector<std::int64_t> instances = instances_per_step(program);
  std::map<std::string, std::pair<std::int64_t, double>> roles;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.lane != lane.lane || node.kind == OpKind::kMark) continue;
    auto& [runs, seconds] = roles[name(node.role)];
    runs += instances[i];
    seconds +=
        to_seconds(cost.costs(lane.stage)[i].alone).value * static_cast<double>(instances[i]);
  }
  std::vector<Term> terms;
  for (const auto& [role, sum] : roles)
    terms.push_back(term(fmt::format("{}, {} times", role, sum.first), sum.second,
                         TermUnit::kSeconds, "alone, by the cost model"));
  sort_terms(terms);
  return terms;
}

Explanation busy(const CostModel& cost, const sim::LaneReport& lane, const std::string& at) {
  Explanation out =
      sum_of(at + ".busy_s", lane.busy.value, TermUnit::kSeconds,
             fmt::format("operations of {} of stage {}, by role", name(lane.lane), lane.stage),
             alone(cost, lane));
  double rest = lane.busy.value;
  for (const Term& one : out.terms) rest -= one.value;
  out.terms.push_back(term("more than alone: they share links and cores with others", rest,
                           TermUnit::kSeconds, kSimulated));
  return out;
}

void add_lane(const CostModel& cost, const sim::LaneReport& lane, std::size_t index, Seconds step,
              Explanations& out) {
  const std::string at = fmt::format("lanes[{}]", index);
  out.push_back(busy(cost, lane, at));
  out.push_back(quotient(at + ".busy_share", lane.busy_share, TermUnit::kShare, "busy / step",
                         {seconds_term("busy", lane.busy, at + ".busy_s")},
                         {seconds_term("step", step, "time.step_s")}));
  const auto add = [&](const char* key, Seconds time, const char* formula) {
    out.push_back(single(at + key, time.value, TermUnit::kSeconds, formula, kSimulated));
  };
  add(".exposed_s", lane.exposed, "busy while the compute lane is idle");
  add(".latency_s", lane.latency, "of busy, what passes before the first byte of transfers");
  add(".peer_wait_s", lane.peer_wait, "ready, other members of the group not");
  add(".reuse_wait_s", lane.reuse_wait, "waits for nothing but the reuse of memory");
  add(".launch_wait_s", lane.launch_wait, "waits for nothing but its launch");
  out.push_back(
      single(at + ".stage", lane.stage, TermUnit::kNone, "stage of the pipeline", "plan"));
}

std::vector<Seconds> seconds_of_links(const StepTotals& totals) {
  std::vector<Seconds> used;  // as SimResult::links has them
  for (const Seconds link : totals.links)
    if (link.value > 0) used.push_back(link);
  return used;
}

// What a limit's share is of the step: the name tells which resource it is (sim/report.cpp).
std::optional<Term> limiting_time(const Explained& plan, const StepTotals& totals,
                                  const std::string& resource) {
  const bool stages = totals.classes.size() > 1;
  const auto prefix = [&](int stage) { return stages ? fmt::format("stage {} ", stage) : ""; };
  for (std::size_t i = 0; i < plan.sim.lanes.size(); ++i) {
    const sim::LaneReport& lane = plan.sim.lanes[i];
    const std::string own = prefix(lane.stage);
    if (resource == fmt::format("{}{}", own, name(lane.lane)))
      return seconds_term(resource, lane.busy, fmt::format("lanes[{}].busy_s", i));
    if (resource == fmt::format("{}latency of {}", own, name(lane.lane)))
      return seconds_term(resource, lane.latency, fmt::format("lanes[{}].latency_s", i));
  }
  const std::vector<Seconds> links = seconds_of_links(totals);
  for (std::size_t i = 0; i < plan.sim.links.size(); ++i)
    if (resource == fmt::format("{} ({})", plan.sim.links[i].kind, plan.sim.links[i].name))
      return seconds_term("bytes of the step at the link's rate", links[i], kCounted);
  for (std::size_t stage = 0; stage < totals.classes.size(); ++stage)
    if (resource == prefix(static_cast<int>(stage)) + "launch")
      return seconds_term("launches, one after the other", to_seconds(totals.classes[stage].launch),
                          kCounted);
  if (resource != "pipeline bubble") return std::nullopt;
  return seconds_term("waits of the busiest stage",
                      plan.sim.split.parts[static_cast<std::size_t>(sim::TimePart::kWait)],
                      kSimulated);
}

}  // namespace

void explain_lanes(const Explained& plan, const CostModel& cost, Explanations& out) {
  const Seconds period = plan.sim.period;
  const Term step = seconds_term("step", period, "time.step_s");
  const StepTotals totals = step_totals(cost);
  for (std::size_t i = 0; i < plan.sim.limits.size(); ++i) {
    const sim::Limit& limit = plan.sim.limits[i];
    if (const std::optional<Term> time = limiting_time(plan, totals, limit.resource))
      out.push_back(quotient(fmt::format("time.limits[{}].share", i), limit.share, TermUnit::kShare,
                             limit.resource + ": time in use / step", {*time}, {step}));
  }
  for (std::size_t i = 0; i < plan.sim.lanes.size(); ++i)
    add_lane(cost, plan.sim.lanes[i], i, period, out);
  const std::vector<Seconds> links = seconds_of_links(totals);
  for (std::size_t i = 0; i < plan.sim.links.size(); ++i) {
    const std::string at = fmt::format("links[{}]", i);
    const sim::LinkReport& link = plan.sim.links[i];
    out.push_back(
        quotient(at + ".utilisation", link.utilisation, TermUnit::kShare,
                 fmt::format("{} ({}): bytes of the step at its rate / step", link.kind, link.name),
                 {seconds_term("bytes at the link's rate", links[i], kCounted)}, {step}));
    out.push_back(single(at + ".busy_share", link.busy_share, TermUnit::kShare,
                         "share of the step with at least one transfer", kSimulated));
  }
  const auto count = [&](const char* what, std::int64_t number, const char* formula) {
    out.push_back(single(what, static_cast<double>(number), TermUnit::kNone, formula, kSimulated));
  };
  count("steps", plan.sim.steps, "simulated, until two took as long");
  count("ops", plan.sim.ops, "operations of all stages in them");
}

}  // namespace zplan
