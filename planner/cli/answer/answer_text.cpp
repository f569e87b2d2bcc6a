// One screen: what was asked, the plan, memory, time, what limits it, how sure the search is, what
// else was tried, and what to type next.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "models/model_formulas.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/anchor_output.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/simplicity.h"

namespace zplan {
namespace {

constexpr std::size_t kLabelWidth = 12;

// "Label       text", wrapped under itself.
std::string entry(std::string_view label, std::string_view text) {
  return fmt::format("{:<{}}{}\n", label, kLabelWidth,
                     wrap(text, kScreenWidth, kLabelWidth, kLabelWidth));
}

// A heading, then lines that are already indented.
std::string section(std::string_view label, const std::string& indented) {
  return fmt::format("{:<{}}{}", label, kLabelWidth, indented.substr(kLabelWidth));
}

// " (source)", or nothing where the source of the whole model says it all.
std::string source_of(const ModelConfig& model, std::string_view field, bool given) {
  if (given) return " (as given)";
  const std::string& source = model.source_of(field);
  return source == model.source ? "" : fmt::format(" ({})", source);
}

std::string header(const Answer& answer, const PlanCommand& command) {
  const ModelConfig& model = answer.model;
  const Pins& pins = command.pins;
  const double parameters = static_cast<double>(parameter_count(model));
  std::string out =
      entry("Model", fmt::format("{}: {} parameters, {} layers of hidden size {}, {} heads ({})",
                                 model.name, format_count(parameters), model.layers,
                                 grouped(model.hidden), model.heads, model.source));
  out += entry("", fmt::format("sequence {} tokens{}, global batch {}{}", grouped(answer.sequence),
                               source_of(model, "sequence", pins.has("/batch/sequence")),
                               count_of(answer.global_batch, "sequence"),
                               source_of(model, "global_batch", pins.has("/batch/global_batch"))));
  out += entry("Cluster", answer.cluster.name + ": " + cluster_words(answer.cluster));
  return out;
}

std::string plan_part(const Plan& plan) {
  std::string out;
  for (const std::string& line : plan_lines(plan)) out += entry(out.empty() ? "Plan" : "", line);
  return out;
}

// The lines of a plan that another one does not have.
std::string what_differs(const Plan& plan, const Plan& other) {
  const std::vector<std::string> lines = plan_lines(plan), others = plan_lines(other);
  std::string out;
  for (const std::string& line : lines)
    if (std::find(others.begin(), others.end(), line) == others.end())
      out += (out.empty() ? "" : "; ") + line;
  return out;
}

// The fastest plan found, where another one is recommended.
std::string fastest_part(const SearchResult& search) {
  if (!search.fastest) return "";
  const double share = search.best->step->value / search.fastest->step->value - 1;
  const std::string worlds = search.wins ? fmt::format(" in {} of 100 worlds", *search.wins) : "";
  const std::string_view more =
      first_difference(simplicity_of(search.fastest->plan), simplicity_of(search.best->plan));
  return entry("Fastest",
               fmt::format("{} faster, {} a step{}, {}: {}", percent(share),
                           format_seconds(*search.fastest->step), worlds,
                           more.empty() ? "as simple" : fmt::format("less simple ({})", more),
                           what_differs(search.fastest->plan, search.best->plan)));
}

std::string search_part(const Answer& answer, const PlanCommand& command) {
  const SearchStats& stats = answer.search.stats;
  std::string gap;
  if (fits(answer)) {
    gap = fmt::format("; {} simulated, gap of the fastest {} by this cost model",
                      grouped(stats.simulated), percent(stats.gap));
  }
  const std::string aside =
      stats.set_aside > 0
          ? fmt::format(" ({} set aside: fit closer to the GPU)", grouped(stats.set_aside))
          : "";
  return entry(
      "Search",
      fmt::format("{} in the space{}, {} lowered{}{}", count_of(stats.space, "plan"), aside,
                  grouped(stats.visited),
                  fits(answer) ? gap : fmt::format(", {} simulated", grouped(stats.simulated)),
                  command.exhaustive ? "; exhaustive" : ""));
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
    return std::tuple(why ? 2 : r.set_aside ? 1 : 0, value);
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

std::string rejected_part(const Answer& answer) {
  if (answer.search.rejected.empty()) return "";
  Table table({Align::kLeft, Align::kLeft});
  bool rows = false, set_aside = false;
  for (const Rejected* rejected : one_per_tiers(answer.search)) {
    set_aside = set_aside || rejected->set_aside;
    if (rejected->set_aside) continue;
    const auto& why = rejected->best.infeasible;
    const bool standard = rejected->family.recipe == 0 && own_recipe(answer.search) != 0;
    table.row({name(rejected->family) + (standard ? " standard" : ""),
               why ? shortage(*why) : rejected->reason});
    rows = true;
  }
  std::string out =
      rows ? section(fits(answer) ? "Rejected" : "Tried", table.text(kLabelWidth)) : "";
  if (set_aside)
    out += entry("", "other tiers: set aside, the same plans fit with states closer to the GPU");
  return out;
}

std::string typed(const std::vector<std::string>& arguments) {
  std::string out;
  for (const std::string& word : arguments) out += " " + shell_word(word);
  return out;
}

std::string next_part(const FoundPlan& best, const PlanCommand& command) {
  const std::string file = shell_word(command.output.empty() ? "plan.json" : command.output);
  std::string out;
  const auto add = [&](const std::string& line) {
    out += fmt::format("{:<{}}{}\n", out.empty() ? "Next" : "", kLabelWidth, line);
  };
  if (command.output.empty())
    add(fmt::format("./zplan plan{} -o {}", typed(command.arguments), file));
  add(fmt::format("./zplan simulate {} --trace trace.json", file));
  if (find_kernel_set(best.planned.plan.kernel_set).runs_on == RunsOn::kCpu) {
    const bool drive = family_of(best.planned.plan).nvme;
    add(fmt::format("./zplan run {} --steps 10 --check{}", file, drive ? " --nvme-dir ." : ""));
  }
  return out;
}

}  // namespace

std::string answer_text(const Answer& answer, const PlanCommand& command) {
  std::string out = anchors_text(answer.anchors) + header(answer, command) + "\n";
  if (answer.best) {
    out += over_text(answer.best->memory);
    const FoundPlan& best = *answer.best;
    out += plan_part(best.planned.plan);
    out += fastest_part(answer.search) + "\n";
    out += section("Memory", memory_text(best.memory, kLabelWidth));
    if (const std::string why = tier_reason(answer); !why.empty()) out += entry("", "fits " + why);
    out += "\n";
    out += section("Time", time_text(best.time, kLabelWidth));
    out += entry("Limited by", limits_text(best.time));
    out += entry("Certainty", certainty_text(best.time.certainty)) + "\n";
  }
  out += search_part(answer, command);
  out += rejected_part(answer);
  if (answer.best) {
    out += entry("Fingerprint", answer.best->planned.fingerprint);
    if (answer.elapsed) out += entry("Took", format_seconds(*answer.elapsed));
    out += "\n" + next_part(*answer.best, command);
  } else if (answer.elapsed) {
    out += entry("Took", format_seconds(*answer.elapsed));
  }
  return out;
}

}  // namespace zplan
