#include <utility>

#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"

namespace zplan {

Command parse_sensitivity(const std::vector<std::string>& arguments) {
  SensitivityCommand command;
  PinOptions pins;
  Syntax syntax(
      "Say what each quantity of the hardware is worth to the step: seconds per GB/s, per us ..",
      "zplan sensitivity PLAN.json [options], or zplan sensitivity --model M --cluster C [options]",
      "\nExamples:\n"
      "  ./zplan sensitivity plan.json\n"
      "  ./zplan sensitivity --model 10B --cluster dgx2 --optimizer nvme --check\n");
  add_source(syntax, pins, command.source);
  syntax.flag("--check", command.check,
              "Also simulate changes of 5 %, beside what the prices predict");
  syntax.flag("--json", command.json, "Print JSON (zplan.sensitivity/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  require_one_source(command.source, "sensitivity");
  return command;
}

}  // namespace zplan
