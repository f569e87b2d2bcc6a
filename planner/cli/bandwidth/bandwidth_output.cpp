#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "models/model_formulas.h"
#include "planner/cli/bandwidth/bandwidth.h"
#include "planner/cli/bandwidth/verdict.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::size_t kRooflineRows = 14;

Value intensity_value(double flop_per_byte) {
  const std::string words = flop_per_byte < 10 ? fmt::format("{:.2f}", flop_per_byte)
                                               : grouped(static_cast<std::int64_t>(flop_per_byte));
  return right({flop_per_byte, words});
}

Table intensity_table(const Bandwidth& found) {
  Table table({"state", "form", "printed: as printed", "layers: own layers"});
  const auto row = [&](MovedState state, const char* form, double printed, double layers) {
    table.row({{"state", name(state)},
               {"form", form},
               {"printed", intensity_value(printed)},
               {"layers", intensity_value(layers)}});
  };
  row(MovedState::kParameters, "seq x bsz", found.printed.parameters, found.layers.parameters);
  row(MovedState::kOptimizer, "seq x bsz / 4", found.printed.optimizer, found.layers.optimizer);
  row(MovedState::kActivations, "24 hd ci", found.printed.checkpoints, found.layers.checkpoints);
  return table;
}

bool recomputes(const Plan& plan) {
  return std::ranges::any_of(plan.recompute, [&](const RecomputeRun& run) {
    return plan.effective(run.mode) != Recompute::kNone;
  });
}

std::string loads_words(const Bandwidth& found) {
  if (found.loads == 0) return "here they stay where they are used";
  std::string words =
      fmt::format("this schedule loads those of the layers {:.2f} times", found.loads);
  if (found.stores > 0) words += fmt::format(" and stores {:.2f} times", found.stores);
  constexpr double kThree = 2.995;
  if (found.loads >= kThree) return words;
  const Plan& plan = found.chosen.planned.plan;
  if (plan.secondary > 0) return words + ": backward gathers from secondary shards";
  return words + (recomputes(plan) ? ": backward goes on with what recomputation loaded"
                                   : ": nothing is recomputed");
}

// The states that no row of the traffic is of.
std::string resting_states(const Bandwidth& found) {
  std::vector<std::string_view> names;
  for (int s = 0; s < kMovedStateCount; ++s) {
    const auto state = static_cast<MovedState>(s);
    const auto is_of = [&](const TierTraffic& one) { return one.state == state; };
    if (std::ranges::none_of(found.traffic, is_of)) names.push_back(name(state));
  }
  return joined(names, "; ");
}

void say_intensities(Sheet& out, const Bandwidth& found) {
  const Plan& plan = found.chosen.planned.plan;
  out.print(fmt::format(
      "\nFlop per byte by ZeRO-Infinity's closed forms (seq {}, bsz {}, ci {}; optimizer: {})\n",
      grouped(plan.rank_sequence()), grouped(plan.batch.micro_batch), plan.checkpoint_layers,
      count_of(plan.micro_steps(), "micro-step")));
  out.table("intensities", intensity_table(found), kIndent);
  out.facts({{"parameter_loads", found.loads}, {"gradient_stores", found.stores}});
  out.say(
      "the paper counts three loads of the parameters and a store of gradients per micro-step; "
      "{}",
      {loads_words(found)}, kIndent);
  const bool leaves_gpus = std::ranges::any_of(
      found.traffic, [](const TierTraffic& one) { return one.hop != Hop::kGpus; });
  if (plan.shards() > 1 && leaves_gpus)
    out.say(
        "a form is of a whole copy: of {} ranks that share one each moves its part between tiers; "
        "counted below is only what crosses there, and attention computes, too",
        {grouped(plan.shards())}, kIndent);
}

// Without the node: all have the like.
std::string short_name(const CostLink& link) {
  if (link.name.empty()) return "-";
  const std::size_t space = link.name.find(' ');
  const bool names_node = link.name.starts_with("node") && space != std::string::npos;
  return names_node ? link.name.substr(space + 1) : link.name;
}

// Bandwidths per GPU, and of the GPUs of a node that move their part at the same time.
Sheet traffic_facts(const TierTraffic& one) {
  const double ranks = one.ranks_in_node;
  const BytesPerSecond half = bandwidth_for(0.5, one.intensity(), one.compute_rate());
  const BytesPerSecond most = bandwidth_for(0.9, one.intensity(), one.compute_rate());
  const double efficiency = infinity_efficiency(one.intensity(), one.rate(), one.compute_rate());
  return {{"state", name(one.state)},
          {"hop", name(one.hop)},
          {"stage", one.stage},
          {"nearer_bytes", right_bytes(one.nearer)},
          {"farther_bytes", right_bytes(one.farther)},
          {"bytes", right_bytes(one.bytes())},
          {"flops", one.flops},
          {"compute_flop_per_s", one.compute_rate()},
          {"intensity", intensity_value(one.intensity())},
          {"half_bytes_per_s", half},
          {"ninety_bytes_per_s", most},
          {"has_bytes_per_s", one.rate()},
          {"efficiency", share(efficiency)},
          {"node_gpus", one.ranks_in_node},
          {"node_half_bytes_per_s", half * ranks},
          {"node_ninety_bytes_per_s", most * ranks},
          {"node_has_bytes_per_s", one.rate() * ranks},
          {"link", {one.link.name, short_name(one.link)}},
          {"link_kind", one.link.kind.empty() ? Value("cores") : Value(one.link.kind)}};
}

void say_traffic(Sheet& out, const Bandwidth& found) {
  Table gpu({"state", "hop: between", "bytes: moved", "intensity: flop/B", "half_bytes_per_s: 50 %",
             "ninety_bytes_per_s: 90 %", "has_bytes_per_s: there", "efficiency"});
  Table node({"state", "hop: between", "node_gpus: GPUs", "node_half_bytes_per_s: 50 %",
              "node_ninety_bytes_per_s: 90 %", "node_has_bytes_per_s: there",
              "link_kind: limited by", "link"});
  for (const TierTraffic& one : found.traffic) {
    const Sheet facts = traffic_facts(one);
    gpu.row(facts);
    node.row(facts);
  }
  out.fact("traffic", gpu.json());
  const std::string resting = resting_states(found);
  if (found.traffic.empty()) return out.print("\nNo state moves between tiers or GPUs.\n");
  out.print(fmt::format("\nWhat a step moves, both ways, and the bandwidth it takes: one GPU\n{}",
                        gpu.text(kIndent)));
  out.say(
      "from the 50 % bandwidth on a transfer is shorter than compute, and overlap can hide it; "
      "efficiency: without overlap, ait x bw / (ait x bw + peak), the peak being what the GPU "
      "computes when nothing holds it up",
      kIndent);
  if (!resting.empty()) out.say("where they are used: {}", {resting}, kIndent);
  out.print(fmt::format("\nThe same of a node: the GPUs of a stage in it, all at a time\n{}",
                        node.text(kIndent)));
}

// What a rank sends in a step, by group. Psi: the parameters of a rank that shards none of them,
// those of the model over tensor parallel ranks and stages [derived].
void say_groups(Sheet& out, const Bandwidth& found) {
  const PlannedJob& planned = found.chosen.planned;
  const Parallel& shape = planned.plan.parallel;
  const double psi = static_cast<double>(parameter_count(planned.model)) / (shape.tp * shape.pp);
  Table table({"group", "ranks", "of", "bytes: sent", "psi_words: in Psi", "link_kind: link",
               "link_bytes: on the fullest"});
  for (const GroupTraffic& one : found.groups) {
    const double unit = psi * (one.ring() > 0 ? one.ring() : 1);
    const std::string words =
        one.states ? fmt::format("{:.2f}", one.elements() / unit) : std::string("-");
    table.row({{"group", one.group},
               {"ranks", one.ranks},
               {"of", one.states ? "states" : "activations"},
               {"bytes", right_bytes(one.bytes)},
               {"elements", one.elements()},
               {"psi", one.states ? Value(one.elements() / unit) : Value()},
               {"psi_words", only_words(right(words))},
               {"gathered_elements", one.gathered},
               {"reduced_elements", one.reduced},
               {"link_kind", one.link.kind},
               {"link", one.link.name},
               {"link_bytes", right_bytes(one.link_bytes)}});
  }
  out.fact("psi_elements", psi);
  if (found.groups.empty()) {
    out.fact("groups", table.json());
    return;
  }
  out.print(
      fmt::format("\nWhat a rank of stage {} sends to others in a step\n", found.sim.split.stage));
  out.table("groups", table, kIndent);
  out.say(
      "Psi: parameters over tensor parallel ranks and stages, {}; volumes in Psi (N - 1) / N: 2 "
      "for "
      "ZeRO 0 and 1, m + 1 for 2 and 3 m for 3 at m micro-steps (here m = {}), less what "
      "embeddings and head need not gather again",
      {format_count(psi), std::to_string(planned.plan.micro_steps())}, kIndent);
}

// And one for each factor of the sweep.
std::vector<Column> with_factors(std::vector<Column> columns) {
  for (const double factor : kSweepFactors) {
    const std::string title = fmt::format("x{:g}", factor);
    columns.emplace_back(title, title);
  }
  return columns;
}

// The efficiency curve of each state at shares of the bandwidth that is there.
void say_curves(Sheet& out, const Bandwidth& found) {
  const std::vector<Column> columns = with_factors({"state", {"hop", "between"}});
  Table table(columns);
  for (const TierTraffic& one : found.traffic) {
    Sheet row{{"state", name(one.state)}, {"hop", name(one.hop)}};
    for (std::size_t i = 0; i < kSweepFactors.size(); ++i)
      row.fact(columns[i + 2].key,
               share(infinity_efficiency(one.intensity(), one.rate() * kSweepFactors[i],
                                         one.compute_rate())));
    table.row(row);
  }
  if (!found.traffic.empty()) out.heading("Efficiency without overlap, at shares of what is there");
  out.table("curves", table, kIndent);
}

void say_sweeps(Sheet& out, const Bandwidth& found) {
  Table table(with_factors({{"hop", "between"}, {"group", "links"}, {"what", ""}}));
  const auto sheet_of = [](const SweepPoint& point, double factor) {
    return Sheet{{"factor", factor}, {"step_s", point.step}, {"exposed_s", point.exposed}};
  };
  Value all = empty_array();
  for (const Sweep& sweep : found.sweeps) {
    std::vector<Value> step{name(sweep.hop), name(sweep.group), "step"};
    std::vector<Value> exposed{"", "", "exposed"};
    Value points = empty_array();
    for (std::size_t i = 0; i < kSweepFactors.size(); ++i) {
      step.emplace_back(right(sweep.points[i].step));
      exposed.emplace_back(right(sweep.points[i].exposed));
      points.append(sheet_of(sweep.points[i], kSweepFactors[i]));
    }
    table.words_row(step);
    table.words_row(exposed);
    all.append(Sheet{{"hop", name(sweep.hop)},
                     {"links", name(sweep.group)},
                     {"link_kind", sweep.link},
                     {"points", points}});
  }
  out.fact("sweeps", all);
  if (found.sweeps.empty()) return;
  out.heading("Simulated with these links slower and faster, all others as they are");
  out.print(table.text(kIndent));
}

Sheet roofline_facts(const OpRoofline& line, double period) {
  return {
      {"part", name(line.part)},
      {"kind", line.kind == WorkKind::kGemm        ? "product"
               : line.kind == WorkKind::kAttention ? "attention"
                                                   : "other"},
      {"runs", static_cast<std::int64_t>(line.runs)},
      {"flops", line.flops},
      {"bytes", right_bytes(line.bytes)},
      {"intensity", intensity_value(line.intensity())},
      {"at_peak_s", {line.at_peak, line.at_peak.value > 0 ? format_seconds(line.at_peak) : "-"}},
      {"at_memory_s", line.at_memory},
      {"at_launch_s", line.at_launch},
      {"limit", name(line.limit())},
      {"time_s", line.time},
      {"step_share", share(line.time.value / period)},
      {"of_limit", line.time.value > 0 ? share(line.least().value / line.time.value) : Value("-")}};
}

void say_rooflines(Sheet& out, const Bandwidth& found) {
  const DeviceProfile& device = found.chosen.cluster.node.device;
  Table table({"part: operations of", "kind", "runs", "intensity: flop/B", "limit: limited by",
               "at_peak_s: peak rate", "at_memory_s: memory", "at_launch_s: launch", "time_s: time",
               "step_share: step"});
  double rest = 0;
  for (std::size_t i = 0; i < found.rooflines.size(); ++i) {
    const bool shown = i < kRooflineRows;
    if (!shown) rest += found.rooflines[i].time.value;
    table.row(roofline_facts(found.rooflines[i], found.sim.period.value), shown);
  }
  out.print(fmt::format("\nRoofline of what stage {} computes (memory {}; times of a step)\n",
                        found.sim.split.stage, format_rate(device.memory_bandwidth)));
  out.table("rooflines", table, kIndent);
  if (found.rooflines.size() > kRooflineRows)
    out.say("and {} more, {} in all",
            {count_of(static_cast<std::int64_t>(found.rooflines.size() - kRooflineRows), "kind"),
             format_seconds(Seconds{rest})},
            kIndent);
}

}  // namespace

Sheet bandwidth_sheet(const Bandwidth& found) {
  const PlannedJob& planned = found.chosen.planned;
  const Verdict verdict = verdict_of(found);
  Sheet out("zplan.bandwidth/1");
  out.facts({{"step_s", found.sim.period}, {"limits", verdict.limit}});
  out.print(verdict.line + "\n");
  out.facts({{"plan", as_json(to_json(planned.plan))},
             {"cluster", found.chosen.cluster.name},
             {"fingerprint", planned.fingerprint},
             {"feasible", !found.chosen.memory.infeasible},
             {"compute_flop_per_s", found.compute}});
  out.print(fmt::format("\n{} on {} ({})\n", planned.model.name, found.chosen.cluster.name,
                        cluster_words(found.chosen.cluster)));
  for (const std::string& line : plan_lines(planned.plan, planned.model))
    out.print(paragraph(line, kIndent));
  say_intensities(out, found);
  say_traffic(out, found);
  say_groups(out, found);
  say_curves(out, found);
  say_sweeps(out, found);
  say_rooflines(out, found);
  return out;
}

}  // namespace zplan
