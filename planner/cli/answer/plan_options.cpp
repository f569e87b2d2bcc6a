#include <string>
#include <utility>
#include <vector>

#include "planner/cli/answer/objective_options.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr const char* kPlanFooter =
    "\nExamples:\n"
    "  ./zplan plan llama3-8b 16xH100\n"
    "  ./zplan plan --model 1T --cluster dgx2x32\n"
    "  ./zplan plan --model gpt2 --cluster dgx2 --global-batch 256 --zero 3 --json\n"
    "  ./zplan plan --model gpt2 --cluster dgx2x2 --objective cheapest --price 2.5/h --tokens 10B\n"
    "  ./zplan plan --model tiny-gpt --cluster workstation --measured 2.2ms --of plan.json\n"
    "  ./zplan plan --model my-model.json --cluster my-node.jsonx4 -o plan.json\n";

Command read_plan(Syntax& syntax, const std::vector<std::string>& arguments, bool top_level) {
  PlanCommand command;
  command.arguments = lasting(arguments);
  command.threads = all_threads();
  PinOptions pins;
  bool version = false;  // taken before; here for the help
  add_question(syntax, pins, command);
  add_measured(syntax, command.measured);
  add_measured_plan(syntax, command.measured_plan,
                    "The plan whose run --measured is of [the one that the pins leave]");
  add_objective(syntax, command);
  syntax.text("-o,--output", command.output, "FILE", "Write the plan, for simulate, lower and run");
  syntax.flag("--bundle", command.bundle,
              "With its model and hardware in one file (zplan.bundle/1)");
  syntax.flag("--ignore-capacity", command.ignore_capacity,
              "When no plan fits, answer with the one that is least over");
  add_effort(syntax, command);
  syntax.flag("--exhaustive", command.exhaustive, "Simulate every plan that fits");
  syntax.integer("--top", command.top, 1, kMaxSimulations,
                 "Also list the fastest N of the plans simulated");
  syntax.flag("--pareto", command.pareto,
              "Also list those that no other beats in step, GPU memory and GPUs");
  syntax.flag("--timing", command.timing, "Also say how long planning took");
  syntax.flag("--sources", command.sources,
              "Cite the source of each figure in full, not its key alone");
  syntax.flag("--details", command.details,
              "Print all that is known: search, rejected families, sources, fingerprint");
  syntax.flag("--json", command.json, "Print JSON (zplan.answer/1)");
  if (top_level) syntax.flag("--version", version, "Show the version and exit");
  if (auto help = read_with_question(syntax, arguments, pins, command, "zplan"))
    return std::move(*help);
  check_objective(command);
  check_measured(command.measured, command.measured_plan);
  if (command.bundle && command.output.empty())
    throw_bad_input("--bundle: expected -o FILE beside it");
  return command;
}

}  // namespace

Command parse_plan(const std::vector<std::string>& arguments) {
  Syntax syntax("Find a plan for a model on a cluster: the simplest within 2 % of the fastest",
                "zplan plan MODEL CLUSTER [options] (or --model M --cluster C)",
                kObjectivesHelp + std::string(kMeasuredHelp) + kPlanFooter);
  return read_plan(syntax, arguments, false);
}

Command parse_top_level(const std::vector<std::string>& arguments, const std::string& footer) {
  Syntax syntax(
      "zplan: can this cluster train this model, with which plan, how fast, and what limits it",
      "zplan MODEL CLUSTER [options] (or --model M --cluster C), or zplan SUBCOMMAND ..", footer);
  return read_plan(syntax, arguments, true);
}

}  // namespace zplan
