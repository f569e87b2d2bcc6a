#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/cli/answer/sources.h"
#include "planner/cli/answer/verdict.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/cli/predict/split_output.h"
#include "planner/cli/report/embedded_page.h"
#include "planner/cli/report/report.h"
#include "planner/cli/run/comparison_output.h"
#include "planner/core/error.h"
#include "planner/search/pareto.h"

namespace zplan {
namespace {

std::string verdict_of(const Report& report, const ReportedPlan& plan) {
  const Simulation& s = plan.simulation;
  if (s.memory.infeasible)
    return fmt::format("no: {} does not fit on {}: {}", s.planned.model.name, s.cluster.name,
                       full_reason(*s.memory.infeasible));
  Answer answer = report.answer;
  answer.model = s.planned.model;
  answer.cluster = s.cluster;
  answer.best = FoundPlan{s.planned, s.memory, *s.time};
  answer.search.best = Candidate{.plan = s.planned.plan, .bound = {}, .step = {}, .infeasible = {}};
  return verdict_line(answer);
}

// Each line says what was measured and what it changed.
std::vector<std::string> calibration_lines(const Simulation& simulation) {
  std::vector<std::string> lines;
  for (const Anchor& anchor : simulation.anchors) lines.push_back(anchors_value({anchor}).words);
  if (simulation.memory_calibration)
    lines.push_back(memory_calibration_value(simulation.memory_calibration).words);
  return lines;
}

// What the other answers say beside their figures: what nobody has measured, whether the time is
// above the best ever measured, which kernels and experts it assumes, and what is assumed of the
// model or left out of it.
std::vector<std::string> doubts(const Report& report, const Sheet& time) {
  std::vector<std::string> lines{"Certainty: " + time["certainty"].words};
  for (const std::string_view key : {"attention", "experts"})
    if (const std::string& words = time[key].words; !words.empty()) lines.push_back(words);
  for (const auto* more : {&report.answer.assumed, &report.answer.left_out})
    lines.insert(lines.end(), more->begin(), more->end());
  return lines;
}

Sheet plan_sheet(const Report& report, const ReportedPlan& plan) {
  const Simulation& s = plan.simulation;
  const Sheet time = time_sheet(s.planned, *s.time, 0);
  return {{"file", plan.file},
          {"verdict", verdict_of(report, plan)},
          {"fits", !s.memory.infeasible},
          {"model", s.planned.model.name},
          {"cluster", s.cluster.name},
          {"cluster_words", cluster_words(s.cluster)},
          {"choices", plan_lines(s.planned.plan, s.planned.model)},
          {"calibrations", calibration_lines(s)},
          {"fingerprint", s.planned.fingerprint},
          {"global_batch", s.planned.plan.batch.global_batch},
          {"sequence", s.planned.plan.batch.sequence},
          {"gpus", s.planned.plan.parallel.ranks()},
          {"time", time},
          {"doubts", doubts(report, time)},
          {"split", step_split_sheet(s.time->split, 0)},
          {"limit", limit_of(s.time->split)},
          {"memory", memory_sheet(s.memory, 0)},
          {"plan", as_json(to_json(s.planned.plan))}};
}

Value lanes_value(const sim::SimResult& sim) {
  return each(sim.lanes, [](const sim::LaneReport& lane) {
    return Sheet{{"stage", lane.stage},
                 {"lane", name(lane.lane)},
                 {"busy_share", lane.busy_share},
                 {"exposed_s", lane.exposed},
                 {"peer_wait_s", lane.peer_wait},
                 {"reuse_wait_s", lane.reuse_wait},
                 {"launch_wait_s", lane.launch_wait}};
  });
}

// What became of a plan that was simulated.
std::string reason_of(const Simulated& one, const SearchResult& search, bool unbeaten) {
  if (search.best && one.plan == search.best->plan) return "recommended";
  const double more = one.step.value / search.simulated.front().step.value - 1;
  std::string words = more <= 0 ? "the fastest" : percent(more) + " slower than the fastest";
  return words + (unbeaten ? "; none takes less of time, memory and GPUs at once" : "");
}

Value alternatives(const SearchResult& search) {
  Value out = empty_array();
  if (!search.best) return out;
  const std::vector<Simulated> front = pareto_front(search.simulated);
  for (const Simulated& one : search.simulated) {
    const bool unbeaten = std::any_of(
        front.begin(), front.end(), [&](const Simulated& other) { return other.plan == one.plan; });
    Sheet row = simulated_sheet(one, search.best->plan);
    row.facts({{"recommended", one.plan == search.best->plan},
               {"unbeaten", unbeaten},
               {"reason", reason_of(one, search, unbeaten)}});
    out.append(row);
  }
  return out;
}

Sheet search_sheet(const SearchResult& search) {
  return {{"space", search.stats.space},
          {"visited", search.stats.visited},
          {"simulated", search.stats.simulated},
          {"gap", search.stats.gap},
          {"plans", alternatives(search)},
          {"rejected", each(search.rejected, [](const Rejected& r) {
             return Sheet{{"family", name(r.family)},
                          {"state", name(r.standing)},
                          {"reason", r.best.infeasible ? shortage(*r.best.infeasible) : r.reason}};
           })}};
}

Sheet roofline_sheet(const Report& report) {
  const Simulation& s = report.plans.front().simulation;
  return {{"stage", s.time->split.stage},
          {"peak_tflops", s.time->throughput.peak_tflops},
          {"bandwidth_gb_per_s", s.cluster.node.device.memory_bandwidth.value / 1e9},
          {"points", each(report.roofline, [](const RooflinePoint& p) {
             return Sheet{
                 {"role", name(p.role)}, {"flop", p.flops}, {"bytes", p.bytes}, {"time_s", p.time}};
           })}};
}

Value grid_value(const std::optional<StepGrid>& grid) {
  if (!grid) return nullptr;
  Value steps = empty_array(), factors = empty_array();
  for (const double f : grid->factors) factors.append(f);
  for (const auto& step : grid->steps) steps.append(step);
  return Sheet{{"row", grid->row->name},       {"row_meaning", grid->row->meaning},
               {"column", grid->column->name}, {"column_meaning", grid->column->meaning},
               {"factors", factors},           {"steps_s", steps}};
}

std::string typed(const ReportCommand& command) {
  std::string out = "zplan report";
  for (const std::string& word : command.arguments) out += " " + shell_word(word);
  return out;
}

std::string data_of(const Report& report, const ReportCommand& command) {
  Value plans = empty_array();
  for (const ReportedPlan& plan : report.plans) plans.append(plan_sheet(report, plan));
  const Sheet page{
      {"schema", "zplan.report/1"},
      {"version", ZPLAN_VERSION},
      {"command", typed(command)},
      {"plans", plans},
      {"lanes", lanes_value(report.plans.front().simulation.time->sim)},
      {"timeline", timeline_value(report)},
      {"search", search_sheet(report.answer.search)},
      {"sensitivity", prices_sheet(report.prices)},
      {"roofline", roofline_sheet(report)},
      {"grid", grid_value(report.grid)},
      {"measured", report.measured ? Value(comparison_sheet(*report.measured)) : Value()},
      {"sources", sources_value(report.answer, false)}};
  return page.json();
}

// JSON within a script element must not end it.
std::string within_script(std::string json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

// The sections of the page, in this order; what all of them use comes first.
constexpr std::string_view kScripts[] = {
    "base.js",         "head.js",        "memory.js",   "timeline.js", "step.js",
    "alternatives.js", "sensitivity.js", "roofline.js", "measured.js", "foot.js"};

std::string_view part_of_page(std::string_view end) {
  for (const EmbeddedFile& file : embedded_page())
    if (file.name.ends_with(end)) return file.text;
  throw_bad_input(
      fmt::format("report: this build lacks {}: install Debian's node-d3 and build "
                  "again",
                  end));
}

}  // namespace

std::string report_page(const Report& report, const ReportCommand& command) {
  const std::string data = within_script(data_of(report, command));
  std::string scripts;
  for (const std::string_view script : kScripts) scripts += part_of_page(script);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"{{css}}", part_of_page("page.css")},
      {"{{data}}", data},
      {"{{d3}}", part_of_page("d3.min.js")},
      {"{{js}}", scripts}};
  std::string_view rest = part_of_page("page.html");
  std::string page;
  for (const auto& [mark, text] : parts) {  // in this order
    const std::size_t at = rest.find(mark);
    ZPLAN_ASSERT(at != std::string_view::npos);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

void check_page() { part_of_page("d3.min.js"); }

}  // namespace zplan
