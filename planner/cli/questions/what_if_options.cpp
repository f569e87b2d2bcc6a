#include <utility>

#include "planner/cli/answer/objective_options.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"

namespace zplan {

Command parse_what_if(const std::vector<std::string>& arguments) {
  WhatIfCommand command;
  PlanCommand& question = command.question;
  question.threads = all_threads();
  PinOptions pins;
  Syntax syntax("Say what other hardware would bring: the best plan before and after, and why",
                "zplan what-if --model M --cluster C --set NAME=VALUE [--set ..] [options]",
                "\nExamples:\n"
                "  ./zplan what-if --model 10B --cluster dgx2 --set gpu.memory=80GiB\n"
                "  ./zplan what-if --model llama3-8b --cluster rtx4090-12ssd --set nvme=x0.5 --set "
                "pcie=x2\n");
  add_question(syntax, pins, question);
  add_objective(syntax, question);
  add_effort(syntax, question);
  syntax.flag("--json", command.json, "Print JSON (zplan.what_if/1)");
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  require_both(question, "zplan what-if --set nvme=x2");
  if (question.changes.empty())
    throw_bad_input(
        "expected a change, as in: zplan what-if --model 10B --cluster dgx2 --set "
        "nvme=50GB/s");
  pins.finish(question.pins);
  require_cheapest(question);
  check_objective(question);
  return command;
}

}  // namespace zplan
