#include <fmt/format.h>

#include <string>
#include <utility>

#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// The paper's figures are of no plan, model or cluster.
void require_no_plan(const PlanSource& source) {
  const PlanCommand& question = source.question;
  const std::string option = !question.model.empty()     ? "--model"
                             : !question.cluster.empty() ? "--cluster"
                             : !question.stack.empty()   ? "--for"
                                                         : pinned_option(question.pins);
  if (source.plan.empty() && option.empty()) return;
  throw_bad_input(fmt::format("--paper: expected nothing else but --json, got {}",
                              option.empty() ? in_quotes(source.plan) : option));
}

}  // namespace

Command parse_bandwidth(const std::vector<std::string>& arguments) {
  BandwidthCommand command;
  PinOptions pins;
  Syntax syntax(
      "Show what each state moves between tiers, the bandwidth that hides it, and what others "
      "would "
      "cost",
      "zplan bandwidth PLAN.json [options], or zplan bandwidth --model M --cluster C [options]",
      "\nExamples:\n"
      "  ./zplan bandwidth plan.json\n"
      "  ./zplan bandwidth --model 1T --cluster dgx2x32 --optimizer nvme --params nvme\n"
      "  ./zplan bandwidth --paper\n");
  add_source(syntax, pins, command.source);
  syntax.flag("--paper", command.paper,
              "Instead ZeRO-Infinity's own Fig. 3 and Table 3, and claims of papers");
  syntax.flag("--json", command.json, "Print JSON (zplan.bandwidth/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  if (command.paper) {
    require_no_plan(command.source);
  } else {
    require_one_source(command.source, "bandwidth");
  }
  return command;
}

}  // namespace zplan
