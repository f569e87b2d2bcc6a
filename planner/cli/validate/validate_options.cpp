#include <utility>

#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"

namespace zplan {

Command parse_validate(const std::vector<std::string>& arguments) {
  ValidateCommand command;
  command.threads = all_threads();
  Syntax syntax(
      "Compare predictions with published runs: each is planned as it says and simulated",
      "zplan validate RUNS.jsonl [options]",
      "\nA line that is no record is reported and left out; the exit code is 5 then. What a plan\n"
      "cannot express is listed as not supported.\n"
      "\nExamples:\n"
      "  ./zplan validate runs.jsonl\n"
      "  ./zplan validate runs.jsonl --group vtrain_multi --html report.html\n");
  syntax.positional("RUNS.jsonl", command.runs, "Published runs (zplan.runs/1), a record a line");
  syntax.text("--group", command.group, "G", "Only the runs of this group");
  syntax.text("--stack", command.stack, "NAME",
              "Software of all runs: a name or a .json file [each record's own]");
  syntax.text("--anchor", command.anchor, "RUN.jsonl",
              "Measured runs of yours (zplan.runs/1); the stack's rates follow them");
  syntax.text("--html", command.html, "FILE", "Write a page with a plot and all runs");
  syntax.integer("--threads", command.threads, 1, kMaxThreads,
                 "Threads that simulate; the result is the same [all]");
  syntax.flag("--json", command.json, "Print JSON (zplan.validation/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!command.runs.empty()) return command;
  throw_bad_input("expected a file of runs, as in: zplan validate runs.jsonl");
}

}  // namespace zplan
