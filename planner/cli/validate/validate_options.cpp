#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/validate/run_form.h"

namespace zplan {
namespace {

// "10%", "2.5 %": at most kMostPercent.
std::optional<double> percentage(std::string_view word) {
  constexpr double kMostPercent = 10'000;
  double number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, status] = std::from_chars(word.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const bool is_good = status == std::errc{} && number >= 0 && number <= kMostPercent &&
                       !std::signbit(number) && (unit == "%" || unit == " %");
  return is_good ? std::optional(number) : std::nullopt;
}

void add_percentage(Syntax& syntax, const std::string& name, const std::string& help,
                    std::optional<double>& target) {
  syntax.parsed(name, "PERCENT", help, [name, &target](const std::string& word) {
    target = percentage(word);
    if (!target)
      throw_bad_input(
          fmt::format("{}: expected a percentage such as 10%, got {}", name, in_quotes(word)));
  });
}

void add_checks(Syntax& syntax, ValidateCommand& command) {
  syntax.group("Checks, which end with exit code 5 where they fail");
  add_percentage(syntax, "--most-off", "Fail where the step time of a run is off by more",
                 command.most_off);
  add_percentage(syntax, "--most-mean-off",
                 "Fail where those of a group are off by more on average", command.most_mean_off);
  syntax.text("--baseline", command.baseline, "REPORT.json",
              "Fail where a run is worse than in this earlier output of --json");
  add_percentage(syntax, "--most-worse",
                 "Percentage points that an error may grow by since then [1%]", command.most_worse);
}

}  // namespace

Command parse_validate(const std::vector<std::string>& arguments) {
  ValidateCommand command;
  command.threads = all_threads();
  Syntax syntax(
      "Compare predictions with published runs: each is planned as it says and simulated",
      "zplan validate RUNS.jsonl [options]",
      "\nA record that is none is reported and left out; the exit code is 5 then. What a plan\n"
      "cannot express is listed as not supported.\n"
      "\nExamples:\n"
      "  ./zplan validate runs.jsonl\n"
      "  ./zplan validate runs.jsonl --group vtrain_multi --html report.html\n"
      "  ./zplan validate runs.jsonl --most-off 15% --most-mean-off 8%\n"
      "  ./zplan validate runs.jsonl --json > base.json   (once; then, after each change:)\n"
      "  ./zplan validate runs.jsonl --baseline base.json --most-worse 0.5%\n");
  syntax.positional("RUNS.jsonl", command.runs,
                    "Published runs (zplan.runs/2, zplan.runs/1), one record each");
  syntax.text("--group", command.group, "G", "Only the runs of this group");
  syntax.text("--for,--stack", command.stack, "NAME",
              "Software of all runs: a name or a .json file [each record's own]");
  syntax.text("--anchor", command.anchor, "RUN.jsonl",
              "Your calibration runs (zplan.runs/2): they correct the software's rates");
  syntax.text("--html", command.html, "FILE", "Write a page with a plot and all runs");
  syntax.integer("--threads", command.threads, 1, kMaxThreads,
                 "Threads that simulate; the result is the same [all]");
  syntax.flag("--json", command.json, "Print JSON (zplan.validation/1)");
  add_checks(syntax, command);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (command.most_worse && command.baseline.empty())
    throw_bad_input("--most-worse: expected --baseline REPORT.json beside it");
  if (!command.runs.empty()) return command;
  throw_bad_input("expected a file of runs, as in: zplan validate runs.jsonl");
}

Command parse_run_records(const std::vector<std::string>& arguments) {
  RunsCommand command;
  bool is_template = false;
  Syntax syntax(
      "Print a record of a training run to edit, or the records of a file in the form of today",
      "zplan runs [options]",
      "\nzplan schema zplan.runs/2 describes every key. A line that is no record is reported and\n"
      "left out; the exit code is 5 then.\n"
      "\nExamples:\n"
      "  ./zplan runs --template > my-run.jsonl\n"
      "  ./zplan runs --convert runs.jsonl > runs-2.jsonl\n");
  syntax.flag("--template", is_template,
              "Print a whole record (zplan.runs/2) with what each key means");
  syntax.text("--convert", command.convert, "RUNS.jsonl",
              "Print the records of a file, zplan.runs/1 among them, as zplan.runs/2");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (is_template != command.convert.empty())
    throw_bad_input("expected one of --template and --convert, as in: zplan runs --template");
  if (is_template) return ShowText{run_template()};
  return command;
}

}  // namespace zplan
