#include <utility>

#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"

namespace zplan {

Command parse_export(const std::vector<std::string>& arguments) {
  ExportCommand command;
  PinOptions pins;
  Syntax syntax("Write a plan as the configuration of a training framework, with what starts it",
                "zplan export PLAN.json --to FRAMEWORK -o DIR [options]",
                "\nExamples:\n"
                "  ./zplan export plan.json --to deepspeed -o out\n"
                "  ./zplan export plan.json --to deepspeed\n");
  add_source(syntax, pins, command.source);
  syntax.text("--to", command.target, "FRAMEWORK",
              "Whose: deepspeed, megatron[-bridge], torchtitan, accelerate, hf, fsdp");
  syntax.text("-o,--output", command.directory, "DIR", "Where to; without it nothing is written");
  syntax.flag("--json", command.json, "Print JSON (zplan.export/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  require_one_source(command.source, "export");
  if (command.target.empty())
    throw_bad_input("expected a framework, as in: zplan export plan.json --to deepspeed -o out");
  return command;
}

Command parse_check(const std::vector<std::string>& arguments) {
  CheckCommand command;
  PinOptions pins;
  Syntax syntax(
      "Check a framework's configuration: does it fit, how fast is it, what to mend",
      "zplan check CONFIG --model M --cluster C [options]",
      "\nExamples:\n"
      "  ./zplan check ds_config.json --model llama3-8b --cluster dgx-h100 --recompute full\n"
      "  ./zplan check ds_config.json --with hf --model gpt2 --cluster dgx-a100 --recompute "
      "full\n"
      "  ./zplan check ds_config.json --model llama3-8b --cluster dgx-h100 --recompute full "
      "--measured 38%MFU\n" +
          std::string(kMeasuredHelp));
  syntax.positional("CONFIG", command.config,
                    "Of DeepSpeed, Megatron-LM, torchtitan, Accelerate and others");
  PlanCommand& question = command.question;
  syntax.text("-m,--model", question.model, "M", "The model: llama3-8b, or a .json file");
  syntax.text("-c,--cluster", question.cluster, "C", "Where to: dgx-h100x4, or a .json file");
  syntax.text("--for,--stack", question.stack, "S", "Whose kernels and rates [the framework's]");
  add_measured(syntax, question.measured);
  add_gpus(syntax, question.pins);
  add_changes(syntax, question.changes);
  add_headroom(syntax, question.headroom);
  pins.add("/batch/global_batch", syntax, question.pins);
  pins.add("/batch/sequence", syntax, question.pins);
  syntax.text("--adapter", command.adapter, "FILE", "PEFT's adapter_config.json: what is trained");
  syntax.choice("--with", "Who fills in \"auto\" [plain]", {"plain", "hf"},
                [&](std::size_t word) { command.with_trainer = word == 1; });
  syntax.flag("--json", command.json, "Print JSON (zplan.check/1)");
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  pins.finish(question.pins);
  if (command.config.empty())
    throw_bad_input(
        "expected a configuration, as in: zplan check ds_config.json --model M --cluster C");
  if (question.cluster.empty())
    throw_bad_input("--cluster: expected what it is to run on, as in: --cluster dgx-h100x4");
  return command;
}

}  // namespace zplan
