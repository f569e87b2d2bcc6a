#include <filesystem>
#include <system_error>
#include <utility>

#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

// A word that begins with a digit is a number of the run, unless a file has that name; another word
// names a timeline.
void add_run(ReportCommand& command, const std::string& word) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(word, ignored);
  if (!is_file && is_measured_number(word)) return command.measured.add(word);
  if (!command.timeline.empty()) throw_bad_input("--measured: expected one timeline, got two");
  command.timeline = word;
}

// What is asked where there is no plan file.
PlanCommand asked_of(const ReportCommand& command) {
  PlanCommand question = command.question;
  question.cluster = command.cluster;
  return question;
}

}  // namespace

Command parse_report(const std::vector<std::string>& arguments) {
  ReportCommand command;
  PinOptions pins;
  Syntax syntax(
      "Write one self-contained page that shows a plan: memory, time, alternatives",
      "zplan report PLAN.json... -o report.html, or zplan report --model M --cluster C -o ..",
      "\nExamples:\n"
      "  ./zplan report plan.json -o report.html\n"
      "  ./zplan report --model tiny-gpt --cluster workstation -o report.html\n"
      "  ./zplan report plan.json other.json -o report.html\n"
      "  ./zplan report plan.json --measured exec.json -o report.html\n"
      "  ./zplan report plan.json --measured 2.2ms -o report.html\n" +
          std::string(kMeasuredHelp));
  syntax.positionals("PLAN.json", command.plans, "The plan, and others to show beside it");
  syntax.text("-o,--output", command.output, "FILE", "The page");
  syntax.text("-m,--model", command.question.model, "M",
              "Instead of plan files: the model to find a plan for, as zplan plan does");
  syntax.text("-c,--cluster", command.cluster, "C",
              "Cluster; with plan files, another one than they name");
  syntax.text("--for,--stack", command.stack, "S",
              "Whose software sets the costs: nemo2024 .. or a .json file [own]");
  syntax.parsed_each("--measured", "TIMELINE.json|X",
                     "A run of the first plan (zplan run --timeline), or what it took, as 5.2s",
                     [&command](const std::string& word) { add_run(command, word); });
  Pins& asked = command.question.pins;
  add_gpus(syntax, asked);
  pins.add("/batch/global_batch", syntax, asked);
  pins.add("/batch/sequence", syntax, asked);
  add_headroom(syntax, command.headroom);
  add_threads(syntax, command.threads);
  pins.add_others(syntax, asked);
  command.arguments = arguments;
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  pins.finish(asked);
  require_one_source(
      {.plan = command.plans.empty() ? "" : command.plans.front(), .question = asked_of(command)},
      "report");
  if (command.output.empty())
    throw_bad_input("--output: expected a file for the page, as in: -o report.html");
  return command;
}

}  // namespace zplan
