// One screen: what was asked, the plan, memory, time, what limits it, how sure the search is, what
// else was tried, and what to type next.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "hwprofiles/quantities.h"
#include "models/model_formulas.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/answer/first_screen.h"
#include "planner/cli/answer/sources.h"
#include "planner/cli/answer/verdict.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/cli/predict/split_output.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/outside_space.h"
#include "planner/search/pareto.h"
#include "planner/search/simplicity.h"

namespace zplan {
namespace {

std::string_view given(const Pins& pins, std::string_view pointer) {
  return pins.has(pointer) ? " (as given)" : "";
}

Value sentences(const std::vector<std::string>& all) {
  return all.empty() ? left_out() : Value(all);
}

// Returns the parameters that a token goes through, if the model has experts.
Value active_words(const ModelConfig& model) {
  if (!model.experts) return left_out();
  const std::int64_t active = active_parameter_count(model);
  return {active, fmt::format(", {} of them active", format_count(static_cast<double>(active)))};
}

// Returns the parameters of a vision tower and its projectors, if the model has one.
Value vision_words(const ModelConfig& model) {
  if (!model.vision) return left_out();
  const std::int64_t count = vision_parameter_count(model);
  return {count, fmt::format(", of which {} in the vision tower",
                             format_count(static_cast<double>(count)))};
}

// Returns the tokens of each sequence that are of images, if the model has a vision tower.
Value image_words(const ModelConfig& model) {
  if (!model.vision) return left_out();
  const std::int64_t tokens = model.vision->tokens();
  return {tokens, fmt::format(", {} of them of images", tokens)};
}

Sheet model_sheet(const Answer& answer, const Pins& pins) {
  const ModelConfig& model = answer.model;
  const std::int64_t parameters = parameter_count(model);
  Sheet out{{"name", model.name},
            {"parameters", {parameters, format_count(static_cast<double>(parameters))}},
            {"active_parameters", active_words(model)},
            {"vision_parameters", vision_words(model)},
            {"image_tokens", image_words(model)},
            {"layers", model.layers},
            {"hidden", model.hidden},
            {"heads", model.heads},
            {"sequence", answer.sequence},
            {"global_batch", counted(answer.global_batch, "sequence")},
            {"source", model.source},
            {"assumed", sentences(answer.assumed)},
            {"left_out", sentences(answer.left_out)}};
  out.entry(
      "Model",
      "{name}: {parameters} parameters{vision_parameters}{active_parameters}, {layers} layers of "
      "hidden size {hidden}, {heads} heads");
  out.entry("", "sequence {sequence} tokens{}{image_tokens}, global batch {global_batch}{}",
            {given(pins, "/batch/sequence"), given(pins, "/batch/global_batch")});
  for (const std::string& one : answer.assumed) out.entry("", "{}", {one});
  for (const std::string& one : answer.left_out) out.entry("", "{}", {one});
  return out;
}

// Of what --set changed; for people what measured times make of it.
Value changes_value(const Cluster& cluster) {
  Sheet text;
  Value rows = empty_array();
  for (const ValueSource& change : cluster.sources) {
    if (change.source != kGiven) continue;
    rows.append(
        Sheet{{"quantity", change.pointer}, {"value", change.value}, {"in_place_of", change.ref}});
    text.entry("", "{} {} {}", {change.pointer, change.value, change.ref});
  }
  return text.text().empty() ? left_out() : Value(rows, text.text());
}

Sheet cluster_sheet(const Cluster& cluster) {
  Sheet out{{"name", cluster.name},
            {"nodes", cluster.nodes},
            {"devices_per_node", cluster.node.devices_per_node},
            {"devices", cluster.devices()},
            {"device", cluster.node.device.name},
            {"profile_hash", cluster.node.hash},
            {"changes", changes_value(cluster)}};
  if (!cluster.understood.empty()) out.fact("understood", cluster.understood);
  out.entry("Cluster", "{name}: {}", {cluster_words(cluster)});
  for (const std::string& one : cluster.understood) out.entry("", "{}", {one});
  out.show({"changes"});
  return out;
}

// The lines of a plan that another one does not have; where it has them all, the decisions.
std::string what_differs(const Plan& plan, const Plan& other) {
  const std::vector<std::string> lines = plan_lines(plan), others = plan_lines(other);
  std::string out;
  for (const std::string& line : lines)
    if (std::find(others.begin(), others.end(), line) == others.end())
      out += (out.empty() ? "" : "; ") + line;
  return out.empty() ? joined(changed_decisions(other, plan), ", ") : out;
}

// The decisions of a plan that what is proven does not cover.
Value outside_value(const Plan& plan, const Pins& pins) {
  const std::vector<OutsideSpace> outside = outside_space(plan, pins);
  std::vector<std::string> pointers;
  for (const OutsideSpace& one : outside) pointers.emplace_back(one.pointer);
  return {pointers, words_of(outside)};
}

// The fastest plan found, where another one is recommended.
Sheet fastest_sheet(const Answer& answer) {
  const SearchResult& search = answer.search;
  const Plan &fastest = search.fastest->plan, &best = search.best->plan;
  const double faster = search.best->step->value / search.fastest->step->value - 1;
  const std::string worlds = search.wins ? fmt::format(" in {} of 100 samples", *search.wins) : "";
  const std::string_view more = first_difference(simplicity_of(fastest), simplicity_of(best));
  Sheet out{{"step_s", search.fastest->step},
            {"wins_of_100", search.wins},
            {"plan", as_json(to_json(fastest))},
            {"outside_space", outside_value(fastest, answer.pins)}};
  if (answer.objective.headroom) {
    out.entry("Fastest", "{} faster, {step_s} a step: {}",
              {percent(faster), what_differs(fastest, best)});
    return out;
  }
  out.entry(
      "Fastest", "{} faster, {step_s} a step{}, {}: {}",
      {percent(faster), worlds, more.empty() ? "as simple" : fmt::format("less simple ({})", more),
       what_differs(fastest, best)});
  return out;
}

// A faster plan of a kind that the software was never measured with.
Sheet beyond_sheet(const Answer& answer) {
  return {{"step_s", answer.beyond->step},
          {"kind", answer.unmeasured},
          {"plan", as_json(to_json(answer.beyond->plan))}};
}

// What the search has shown of the space, by this cost model: of the fastest plan found.
std::string gap_words(const SearchStats& stats, std::string_view than) {
  if (stats.gap <= 0)
    return fmt::format("proven by this cost model: no plan of the space takes less time{}", than);
  const std::string gap = percent_at_most(stats.gap);
  return stats.gap <= kProvenGap
             ? fmt::format(
                   "proven by this cost model: no plan of the space takes over {} less time{}", gap,
                   than)
             : fmt::format(
                   "not proven: by what bounds them, others could take up to {} less time{}", gap,
                   than);
}

// Names what the proof, and what is said of rejected plans, does not speak of.
std::string left_out_words(const Answer& answer) {
  const std::vector<std::string> all = left_out_of_space(answer);
  return all.empty() ? "" : fmt::format("; outside the space: {}", joined(all, ", "));
}

// How many plans each rung of the search has settled.
Sheet cuts_sheet(const Cuts& cuts) {
  Sheet out;
  std::string words;
  const auto say = [&](std::string_view key, std::int64_t plans, std::string_view how) {
    out.fact(key, plans);
    if (plans > 0) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", grouped(plans), how);
  };
  say("with_group", cuts.with_group, "by shared floors");
  say("shared", cuts.shared, "by work that all homes share");
  say("bytes", cuts.bytes, "by bytes");
  say("floor", cuts.floor, "by their own floors");
  say("placement", cuts.placement, "too large once placed");
  say("bound", cuts.bound, "by bounds of their Jobs");
  say("simulated", cuts.simulated, "simulated");
  say("open", cuts.open, "not yet");
  out.entry("", "settled: {}", {words});
  return out;
}

// What is proven says nothing of plans with decisions that only tuning turns.
void say_outside(Sheet& out, const Answer& answer) {
  if (!fits(answer)) return;
  const auto say = [&](std::string_view which, const Candidate& found) {
    const std::string words = outside_value(found.plan, answer.pins).words;
    if (!words.empty())
      out.entry("", "{} is outside the space ({}), where nothing is proven", {which, words});
  };
  say("this plan", *answer.search.best);
  if (answer.search.fastest) say("the fastest", *answer.search.fastest);
}

Sheet search_sheet(const Answer& answer, bool exhaustive) {
  const SearchStats& stats = answer.search.stats;
  Sheet out{{"space", counted(stats.space, "plan")},
            {"set_aside", stats.set_aside},
            {"visited", stats.visited},
            {"simulated", stats.simulated},
            {"cuts", fits(answer) ? Value(cuts_sheet(stats.cuts)) : left_out()},
            {"gap", share(stats.gap)},
            {"stopped", stats.stopped},
            {"left_out", left_out_of_space(answer)},
            {"outside_space",
             fits(answer) ? outside_value(answer.search.best->plan, answer.pins) : left_out()}};
  const std::string ended = stats.stopped ? "; ended early" : exhaustive ? "; exhaustive" : "";
  out.entry("Search", "{space} in the space, {visited} lowered, {simulated} simulated{}", {ended});
  out.show({"cuts"});
  // The plan itself may be up to 2 % slower.
  const bool of_another = answer.search.fastest || answer.objective.headroom;
  const std::string_view than = of_another ? " than the fastest found" : "";
  if (fits(answer)) out.entry("", "{}{}", {gap_words(stats, than), left_out_words(answer)});
  say_outside(out, answer);
  return out;
}

// The recipe of the answer, or of what comes closest to one.
std::size_t own_recipe(const SearchResult& search) {
  const std::optional<Candidate>& answer = search.best ? search.best : search.closest;
  return answer ? family_of(answer->plan).recipe : 0;
}

// Of the families with the same stage and tiers the one that came closest to winning, and of those
// with another recipe than the answer one for each recipe.
std::vector<const Rejected*> one_per_tiers(const SearchResult& search) {
  const std::size_t own = own_recipe(search);
  const auto rank = [](const Rejected& r) {
    const auto& why = r.best.infeasible;
    const double value = why ? why->overload() : r.best.step.value_or(r.best.bound).value;
    return std::tuple(why                                 ? 2
                      : r.standing == Standing::kSetAside ? 1
                                                          : 0,
                      std::min(value, r.from.value_or(Seconds{value}).value));
  };
  using Row = std::tuple<std::size_t, std::int32_t, bool, bool>;
  std::map<Row, const Rejected*> best;
  for (const Rejected& r : search.rejected) {
    const Family& f = r.family;
    const Row row =
        f.recipe == own ? Row{0, f.zero_stage, f.cpu, f.nvme} : Row{1 + f.recipe, 0, false, false};
    const Rejected*& at = best[row];
    if (at == nullptr || rank(r) < rank(*at)) at = &r;
  }
  std::vector<const Rejected*> result;
  for (const auto& [row, rejected] : best) result.push_back(rejected);
  return result;
}

Sheet rejected_sheet(const Rejected& rejected) {
  const Family& family = rejected.family;
  std::vector<std::string> tiers = {"gpu"};
  if (family.cpu) tiers.emplace_back("cpu");
  if (family.nvme) tiers.emplace_back("nvme");
  return {{"family", name(family)},
          {"zero_stage", family.zero_stage},
          {"tiers", tiers},
          {"tensor", family.tensor},
          {"pipeline", family.pipeline},
          {"precision", recipe_name(family.recipe)},
          {"state", name(rejected.standing)},
          {"reason", rejected.reason},
          {"from_s", rejected.from},
          {"bound_s", rejected.best.bound},
          {"step_s", rejected.best.step},
          {"infeasible", misfit(rejected.best.infeasible)},
          {"plan", as_json(to_json(rejected.best.plan))}};
}

// Those that lost, and apart from them those of which a plan that could win was not simulated.
std::string lost_text(const Answer& answer, bool not_tried) {
  Table table({"", ""});
  for (const Rejected* row : one_per_tiers(answer.search)) {
    const bool is_open = row->standing == Standing::kNotTried;
    if (row->standing == Standing::kSetAside || is_open != not_tried) continue;
    const auto& why = row->best.infeasible;
    const bool standard = row->family.recipe == 0 && own_recipe(answer.search) != 0;
    table.words_row(
        {name(row->family) + (standard ? " standard" : ""), why ? shortage(*why) : row->reason});
  }
  return table.text(kLabelWidth);
}

// All; for people a few of them.
Value rejected(const Answer& answer) {
  const auto is_aside = [](const Rejected* row) { return row->standing == Standing::kSetAside; };
  Sheet text;
  text.labelled(fits(answer) ? "Rejected" : "Tried", lost_text(answer, false));
  if (answer.objective.headroom) text.entry("", "(in the search for the fastest)");
  text.labelled("Not tried", lost_text(answer, true));
  if (std::ranges::any_of(one_per_tiers(answer.search), is_aside))
    text.entry("", "other tiers: set aside, the same plans fit with states closer to the GPU");
  return {each(answer.search.rejected, rejected_sheet), text.text()};
}

Value simulated_value(const std::vector<Simulated>& plans, const Plan& best) {
  Table table({"step_s: step", "gpu_bytes: GPU memory", "ranks: GPUs", "shape: ranks",
               "micro_batch", "differs: what it has otherwise"});
  for (const Simulated& one : plans) {
    Sheet row = simulated_sheet(one, best);
    row.fact("plan", as_json(to_json(one.plan)));
    table.row(row);
  }
  return {table.json(), table.text(2)};
}

// Of the plans simulated, which are a few of the space.
Value fastest_ones(const Answer& answer, std::int64_t most) {
  if (most == 0 || !fits(answer)) return left_out();
  std::vector<Simulated> plans = answer.search.simulated;
  plans.resize(std::min(plans.size(), static_cast<std::size_t>(most)));
  return simulated_value(plans, answer.search.best->plan);
}

Value unbeaten(const Answer& answer) {
  if (!fits(answer)) return left_out();
  return simulated_value(pareto_front(answer.search.simulated), answer.search.best->plan);
}

Sheet timing_sheet(Seconds elapsed) {
  Sheet out{{"elapsed_s", elapsed}};
  out.entry("Took", "{elapsed_s}");
  return out;
}

std::string next_part(const FoundPlan& best, const PlanCommand& command) {
  const std::string file = shell_word(command.output.empty() ? "plan.json" : command.output);
  std::string out;
  const auto add = [&](const std::string& line) {
    out += fmt::format("{:<{}}{}\n", out.empty() ? "Next" : "", kLabelWidth, line);
  };
  if (command.output.empty())
    add(fmt::format("./zplan plan{} -o {}", shell_words(command.arguments), file));
  add(fmt::format("./zplan simulate {} --trace trace.json", file));
  if (find_kernel_set(best.planned.plan.kernel_set).runs_on == RunsOn::kCpu) {
    const bool drive = family_of(best.planned.plan).nvme;
    add(fmt::format("./zplan run {} --steps 10 --check{}", file, drive ? " --nvme-dir ." : ""));
  }
  return out;
}

// Adds what is known of the plan that was found.
void add_plan_facts(Sheet& out, const FoundPlan& best) {
  out.facts({{"plan", as_json(to_json(best.planned.plan))},
             {"memory", memory_sheet(best.memory, kLabelWidth)},
             {"time", time_sheet(best.planned, best.time, kLabelWidth)},
             {"fingerprint", best.planned.fingerprint}});
}

// Prints the same for people, once the rest of the facts is known.
void say_plan(Sheet& out, const FoundPlan& best) {
  out.print(over_text(best.memory));
  std::string_view label = "Plan";
  for (const std::string& line : plan_lines(best.planned.plan, best.planned.model))
    out.entry(std::exchange(label, ""), "{}", {line});
  out.show({"fastest"});
  out.print("\n");
  out.labelled("Memory", out["memory"].words);
  if (!out["fits"].is_left_out()) out.entry("", "fits {fits}");
  out.print("\n");
  const Sheet time = time_sheet(best.planned, best.time, kLabelWidth);
  out.labelled("Time", time.text());
  out.entry("Split", "{}", {split_line(best.time.split)});
  out.entry("Certainty", "{}", {time["certainty"].words});
  out.print("\n");
}

// Prints the plans that --top and --pareto ask for.
void say_lists(Sheet& out, const PlanCommand& command) {
  if (command.top > 0) {
    out.print("\nThe fastest of those simulated\n");
    out.show({"top"});
  }
  if (command.pareto) {
    out.print("\nOf those simulated none beats these in step, GPU memory and GPUs\n");
    out.show({"pareto"});
  }
}

}  // namespace

Sheet simulated_sheet(const Simulated& one, const Plan& best) {
  const Parallel& p = one.plan.parallel;
  return {{"step_s", one.step},
          {"gpu_bytes", one.gpu},
          {"ranks", p.ranks()},
          {"shape", fmt::format("dp {} x tp {} x pp {}", p.dp, p.tp, p.pp)},
          {"micro_batch", one.plan.batch.micro_batch},
          {"family", name(family_of(one.plan))},
          {"differs", joined(changed_decisions(best, one.plan), ", ")}};
}

Sheet answer_sheet(const Answer& answer, const PlanCommand& command) {
  const SearchResult& search = answer.search;
  const std::string why = tier_reason(answer);
  const Sheet objective =
      objective_sheet(answer.objective, objective_step(answer), search.stats.gap);
  Sheet out("zplan.answer/1");
  out.facts({{"feasible", fits(answer)},
             {"verdict", verdict_line(answer)},
             {"model", model_sheet(answer, command.pins)},
             {"cluster", cluster_sheet(answer.cluster)},
             {"objective", objective},
             {"plan", nullptr},
             {"memory", nullptr},
             {"time", nullptr},
             {"fingerprint", nullptr},
             {"reason", fits(answer) ? left_out() : misfit_line(answer)},
             {"fits", why.empty() ? left_out() : why},
             {"search", search_sheet(answer, command.exhaustive)},
             {"fastest", search.fastest ? fastest_sheet(answer) : left_out()},
             {"beyond", answer.beyond ? beyond_sheet(answer) : left_out()},
             {"rejected", rejected(answer)},
             {"top", fastest_ones(answer, command.top)},
             {"pareto", command.pareto ? unbeaten(answer) : left_out()},
             {"timing", answer.elapsed ? timing_sheet(*answer.elapsed) : left_out()},
             {"anchors", anchors_value(answer.anchors)},
             {"memory_calibration", memory_calibration_value(answer.memory_calibration)},
             {"sources", sources_value(answer, command.sources)},
             {"software", software_value(answer)}});
  if (answer.best) add_plan_facts(out, *answer.best);
  if (!command.details) {
    out.show({"anchors", "memory_calibration"});
    out.print(first_screen(answer, command));
    say_lists(out, command);
    out.show({"timing"});
    if (command.sources) out.show({"sources"});
    return out;
  }
  out.say("{verdict}");
  out.print("\n");
  out.show({"anchors", "memory_calibration", "model", "cluster", "objective"});
  out.print("\n");
  if (answer.best) say_plan(out, *answer.best);
  out.show({"search", "rejected"});
  say_lists(out, command);
  if (answer.best) out.entry("Fingerprint", "{fingerprint}");
  out.show({"timing", "sources"});
  if (answer.best) out.print("\n" + next_part(*answer.best, command));
  return out;
}

}  // namespace zplan
