#include <algorithm>
#include <optional>
#include <utility>

#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

Command parse_suggest(const std::vector<std::string>& arguments) {
  SuggestCommand command;
  PlanCommand& question = command.question;
  question.arguments = lasting(arguments);
  std::erase(question.arguments, "--suggest");
  question.threads = all_threads();
  PinOptions pins;
  bool suggest = false;  // taken before; here for the help
  Syntax syntax(
      "Say which measurements would most likely change the choice of a plan; nothing "
      "is measured",
      "zplan calibrate --suggest --model M --cluster C [options]",
      "\nExamples:\n"
      "  ./zplan calibrate --suggest --model llama3-70b --cluster dgx-h100x16\n"
      "  ./zplan calibrate --suggest --model gpt3 --cluster dgx-a100x64 --for megatron@2022\n");
  syntax.flag("--suggest", suggest, "Without it: see zplan calibrate --help");
  add_question(syntax, pins, question);
  add_effort(syntax, question);
  syntax.flag("--json", question.json, "Print JSON (zplan.suggestions/1)");
  if (auto help =
          read_with_question(syntax, arguments, pins, question, "zplan calibrate --suggest"))
    return std::move(*help);
  return command;
}

}  // namespace

Command parse_calibrate(const std::vector<std::string>& arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--suggest") != arguments.end())
    return parse_suggest(arguments);
  CalibrateCommand command;
  Syntax syntax(
      "Measure this machine's device and write a profile of its kind of node, for --cluster",
      "zplan calibrate [--device D | --import FILE --base NODE] [-o FILE] [options]",
      "\nMeasured are one device, working alone, and its way to the host; of the CPU also what "
      "the\n"
      "threads of several ranks take from each other. Of several GPUs, if NCCL is there, also\n"
      "collectives among the first 2, 4, 8 .. and all of them that the base has: this has run on\n"
      "no GPU yet, and with CUDA_VISIBLE_DEVICES=0 it is left out. What is not measured stays as "
      "in\n"
      "the base.\n"
      "\nExamples:\n"
      "  ./zplan calibrate --device cuda -o my-node.json\n"
      "  ./zplan plan --model gpt2 --cluster my-node.json\n"
      "  ./zplan calibrate --import all_reduce.txt --import fio.json --base dgx-h100 -o "
      "mine.json\n");
  std::optional<DeviceChoice> device;
  syntax.choice<std::optional<DeviceChoice>, DeviceChoice>(
      "--device", device, "What is measured; of several GPUs the first, and how they meet [cpu]",
      {{"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}});
  syntax.text("--base", command.base, "NODE",
              "Kind of node, or a .json file [cpu: workstation, cuda: dgx-h100]");
  syntax.texts("--import", command.imports, "FILE",
               "Take what nccl-tests or fio (json) wrote; repeated, later files win");
  syntax.text("-o,--output", command.output, "FILE", "Write the profile (zplan.hw/1)");
  syntax.text("--nvme-dir", command.nvme_directory, "DIR",
              "With --device cpu: also measure the drive of this folder");
  syntax.flag("--quick", command.quick, "Small operands and short times: rough figures");
  bool suggest = false;  // taken before; here for the help
  syntax.flag("--suggest", suggest,
              "Say what to measure for a model and a cluster; has its own --help");
  syntax.flag("--json", command.json,
              "Print JSON (zplan.calibration/1; with --import zplan.import/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!command.imports.empty() && (device || command.quick))
    throw_bad_input("--import: expected neither --device nor --quick beside it, got one");
  if (!command.imports.empty() && command.base.empty())
    throw_bad_input("--base: expected the kind of node that was measured, got none");
  command.device = device.value_or(DeviceChoice::kCpu);
  return command;
}

}  // namespace zplan
