#include <fmt/format.h>

#include <utility>

#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::int64_t kMaxSimulatedSteps = 1000;

}  // namespace

Command parse_simulate(const std::vector<std::string>& arguments) {
  SimulateCommand command;
  PinOptions pins;
  Syntax syntax(
      "Predict the step of a plan in detail",
      "zplan simulate PLAN.json [options], or zplan simulate --model M --cluster C [options]",
      "\nExamples:\n"
      "  ./zplan simulate plan.json --trace trace.json   (open it in ui.perfetto.dev)\n"
      "  ./zplan simulate plan.json --cluster dgx-a100x32 --ignore-capacity\n"
      "  ./zplan simulate --model gpt2 --cluster dgx2 --zero 1\n"
      "  ./zplan simulate plan.json --measured 2.2ms\n"
      "  ./zplan simulate other.json --measured 2.2ms --of plan.json\n" +
          std::string(kMeasuredHelp));
  add_source(syntax, pins, command.source);
  PlanCommand& question = command.source.question;
  syntax.text("--anchor", question.anchor, "RUN.jsonl",
              "Your calibration runs (zplan.runs/2): they correct the software's rates");
  add_measured(syntax, question.measured);
  add_measured_plan(syntax, question.measured_plan,
                    "The plan whose run --measured is of [this one]");
  syntax.integer("--steps", command.steps, 1, kMaxSimulatedSteps,
                 "Steps to simulate [until the step time is steady]");
  syntax.flag("--homes", command.homes,
              "Also compare where kept activations live with the choices of named methods");
  syntax.text("--trace", command.trace, "FILE",
              "Write one step for a trace viewer (Chrome trace JSON); .gz: compressed");
  syntax.flag("--trace-all", command.trace_all,
              "In the trace, every step, rank and micro-batch; may be gigabytes");
  syntax.text("--memory-viz", command.memory_viz, "FILE",
              "Write the memory of a step as a PyTorch memory snapshot (pickle)");
  syntax.text("--timeline", command.timeline, "FILE", "Write the timeline (zplan.timeline/1)");
  syntax.flag("--json", command.json, "Print JSON (zplan.simulation/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  require_one_source(command.source, "simulate");
  check_measured(question.measured, question.measured_plan);
  return command;
}

Command parse_memory(const std::vector<std::string>& arguments) {
  MemoryCommand command;
  PinOptions pins;
  Syntax syntax("Show what a plan holds in memory, by tier, stage and category",
                "zplan memory PLAN.json [options], or zplan memory --model M --cluster C [options]",
                "\nExamples:\n"
                "  ./zplan memory plan.json\n"
                "  ./zplan memory plan.json --deepspeed\n"
                "  ./zplan memory --model llama3-70b --cluster dgx-h100x16\n");
  add_source(syntax, pins, command.source);
  PlanCommand& question = command.source.question;
  add_measured(syntax, question.measured);
  add_measured_plan(syntax, question.measured_plan,
                    "The plan whose run --measured is of [this one]");
  syntax.flag("--deepspeed", command.deepspeed,
              "Also what DeepSpeed's documented estimators say, and why it differs");
  syntax.flag("--json", command.json, "Print JSON (zplan.memory/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  require_one_source(command.source, "memory");
  check_measured(question.measured, question.measured_plan);
  if (question.measured.speed)
    throw_bad_input(fmt::format(
        "--measured: expected a size such as 61GiB, as a speed changes no memory, got {}",
        in_quotes(question.measured.speed->text)));
  return command;
}

Command parse_lower(const std::vector<std::string>& arguments) {
  LowerCommand command;
  PinOptions pins;
  Syntax syntax("Print the training step of a plan as a list of operations (.zprog)",
                "zplan lower PLAN.json [options], or zplan lower --model M --cluster C [options]",
                "\nExamples:\n"
                "  ./zplan lower plan.json | less\n"
                "  ./zplan lower --model gpt2 --cluster dgx2 --zero 1 | less\n"
                "  ./zplan lower plan.json -o plan.zprog\n");
  add_source(syntax, pins, command.source);
  syntax.text("-o,--output", command.output, "FILE", "Write there instead of to stdout");
  syntax.flag("--no-place", command.no_place, "Leave out addresses and reuse edges");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  require_one_source(command.source, "lower");
  return command;
}

}  // namespace zplan
