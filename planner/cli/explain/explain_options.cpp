#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/plan/choices.h"
#include "planner/search/family_words.h"

namespace zplan {
namespace {

// Without the batch, which both plans share.
Pins beside_batch(const Pins& pins) {
  Pins others;
  for (const Decision& row : kChoices) {
    const bool shared = row.pointer == "/batch/global_batch" || row.pointer == "/batch/sequence";
    if (!shared && pins.has(row.pointer)) others.set_setting(row, row.field.get(pins.values()));
  }
  others.recipes = pins.recipes;
  others.bucket = pins.bucket;
  return others;
}

}  // namespace

Command parse_explain(const std::vector<std::string>& arguments) {
  ExplainCommand command;
  PinOptions pins;
  Syntax syntax("Show what a number of a plan's answer is made of",
                "zplan explain PLAN.json [WHAT], or zplan explain --model M --cluster C [WHAT]",
                "\nWHAT is a key of the answer's JSON; without it, all that can be explained.\n"
                "\nExamples:\n"
                "  ./zplan explain plan.json\n"
                "  ./zplan explain plan.json time.mfu\n"
                "  ./zplan explain --model 10B --cluster dgx2 memory.gpu.peak_bytes\n"
                "  ./zplan explain --model 10B --cluster dgx2 placement\n");
  add_source(syntax, pins, command.source);
  syntax.positional("WHAT", command.what,
                    "time.step_s, memory.gpu.peak_bytes ..; placement: of states");
  syntax.flag("--json", command.json,
              "Print JSON (zplan.explanation/1|zplan.explanations/1|zplan.state_cuts/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  PlanSource& source = command.source;
  if (!source.question.model.empty() && command.what.empty())
    command.what = std::exchange(source.plan, "");
  require_one_source(source, "explain");
  return command;
}

Command parse_why_not(const std::vector<std::string>& arguments) {
  WhyNotCommand command;
  PlanCommand& question = command.question;
  question.threads = all_threads();
  PinOptions pins;
  std::vector<std::string> family;
  Syntax syntax("Show why the best plan is not one of a family, or with these pins",
                "zplan why-not FAMILY|PINS --model M --cluster C [options]",
                "\nExamples:\n"
                "  ./zplan why-not \"ZeRO-2 gpu\" --model 10B --cluster dgx2\n"
                "  ./zplan why-not pipeline offload --model 10B --cluster dgx2\n"
                "  ./zplan why-not --model 1.5B --cluster dgx2 --optimizer cpu --json\n");
  syntax.positionals("FAMILY", family,
                     "\"ZeRO-3 gpu+cpu tp\", or what its plans have: pipeline, offload, nvme ..");
  add_question(syntax, pins, question);
  add_effort(syntax, question);
  syntax.flag("--json", question.json, "Print JSON (zplan.why_not/1)");
  if (auto help = read_with_question(syntax, arguments, pins, question, "zplan why-not"))
    return std::move(*help);
  if (!family.empty()) command.family = parse_family(joined(family, " "));
  if (family.empty() && pinned_option(beside_batch(question.pins)).empty())
    throw_bad_input(
        "why-not: expected a family or pins to ask about, as in: zplan why-not \"ZeRO-2 gpu\" "
        "--model 10B --cluster dgx2");
  return command;
}

}  // namespace zplan
