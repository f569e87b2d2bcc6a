#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/explain/state_cuts_output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/search/explanation.h"

namespace zplan {
namespace {

constexpr std::size_t kShown = 12;               // terms that people read
constexpr const char* kPlacement = "placement";  // of model states: WHAT that is no number

std::string value_words(double value, TermUnit unit) {
  switch (unit) {
    case TermUnit::kBytes:
      return (value < 0 ? "-" : "") + format_bytes(Bytes{std::llabs(std::llround(value))});
    case TermUnit::kSeconds:
      return duration_words(Seconds{value});
    case TermUnit::kFlops:
      return fmt::format("{:.4g} flop", value);
    case TermUnit::kTflops:
      return fmt::format("{:.4g} TFLOP/s", value);
    case TermUnit::kShare:
      return percent(value);
    case TermUnit::kPerSecond:
      return grouped(std::llround(value)) + "/s";
    case TermUnit::kNone:
      break;
  }
  return grouped(std::llround(value));
}

Sheet term_sheet(const Term& term) {
  return {{"name", term.name},
          {"value", {term.value, value_words(term.value, term.unit)}},
          {"source", term.source}};
}

// Rows for people are the first ones; the rest is counted.
Table terms_table(const std::vector<Term>& terms, std::string_view sign) {
  Table table({"sign:", "value:", "name:", "source:"});
  for (std::size_t i = 0; i < terms.size(); ++i) {
    Sheet row = term_sheet(terms[i]);
    row.fact("sign", only_words(i == 0 && sign != "/" ? std::string_view() : sign));
    row.fact("value", right(row["value"]));
    table.row(row, i < kShown);
  }
  return table;
}

void add_terms(Sheet& out, std::string_view key, const std::vector<Term>& terms,
               std::string_view sign) {
  out.table(key, terms_table(terms, sign), 2);
  if (terms.size() <= kShown) return;
  double rest = 0;
  for (std::size_t i = kShown; i < terms.size(); ++i) rest += terms[i].value;
  out.print(fmt::format("  and {} more: {}\n", terms.size() - kShown,
                        value_words(rest, terms.front().unit)));
}

Sheet explanation_sheet(const Explanation& e) {
  Sheet out("zplan.explanation/1");
  out.facts({{"what", e.what},
             {"value", {e.value, value_words(e.value, e.unit)}},
             {"formula", e.formula},
             {"combine", e.by == Combine::kSum ? "sum" : "quotient"},
             {"factor", e.factor}});
  out.say("{what} = {value}: {formula}");
  const bool sum = e.by == Combine::kSum;
  add_terms(out, "terms", e.terms, sum ? "+" : "x");
  add_terms(out, "divisors", e.divisors, "/");
  if (!e.made_of.empty()) out.print("\nThe largest\n");
  add_terms(out, "made_of", e.made_of, "");
  return out;
}

Sheet list_sheet(const std::vector<Explanation>& all) {
  Sheet out("zplan.explanations/1");
  Table table({"what", "value", "formula"});
  for (const Explanation& e : all)
    table.row({{"what", e.what},
               {"value", right({e.value, value_words(e.value, e.unit)})},
               {"formula", e.formula}});
  out.say("{} numbers of this plan can be explained: zplan explain .. WHAT",
          {std::to_string(all.size())});
  out.table("explanations", table);
  return out;
}

const Explanation& find(const std::vector<Explanation>& all, const std::string& what) {
  std::vector<std::string> names{kPlacement};
  for (const Explanation& e : all) {
    if (e.what == what || e.what.ends_with("." + what)) return e;
    names.push_back(e.what);
  }
  throw_bad_input(fmt::format("WHAT: expected one of {}, got {}{}", fmt::join(names, ", "),
                              in_quotes(what), did_you_mean(what, names)));
}

}  // namespace

ExitCode execute(const ExplainCommand& command) {
  const std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return ExitCode::kInfeasible;
  if (command.what == kPlacement) {
    write_answer(state_cuts_sheet(chosen->planned.plan, chosen->planned.model, chosen->cluster),
                 command.json);
    return ExitCode::kOk;
  }
  sim::SimOptions options;
  options.split_by_op = true;
  const Job& job = chosen->planned.job;
  const sim::SimResult sim =
      chosen->sim ? *chosen->sim : sim::simulate(job, chosen->cluster, options);
  const sim::StepSplit split = step_split(job, sim);
  const double flops = model_flops(chosen->planned);
  const std::vector<Explanation> all =
      explain({.job = job,
               .model = chosen->planned.model,
               .cluster = chosen->cluster,
               .use = chosen->memory.use,
               .report = chosen->memory.report,
               .split = split,
               .throughput = throughput(job, chosen->cluster, sim.period, flops),
               .model_flops = flops});
  if (command.what.empty()) {
    write_answer(list_sheet(all), command.json);
  } else {
    write_answer(explanation_sheet(find(all, command.what)), command.json);
  }
  return ExitCode::kOk;
}

}  // namespace zplan
