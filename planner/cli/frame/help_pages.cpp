#include "planner/cli/frame/help_pages.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/frame/pin_options.h"
#include "planner/core/text.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

struct VerbLine {
  Verb verb;
  std::string_view word, what;
};
constexpr VerbLine kVerbs[] = {
    {Verb::kAsk, "ask", "what trains, how fast, at what cost"},
    {Verb::kCheck, "check", "what a plan or a configuration does"},
    {Verb::kCompare, "compare", "plans, hardware, measured runs"},
    {Verb::kExplain, "explain", "why this plan, why this number"},
    {Verb::kRun, "run, export", "train here, or with other software"},
    {Verb::kLookUp, "look up", "names and formats"},
};

const DescribedOption* find(const DescribedCommand& command, std::string_view name) {
  const auto found = std::ranges::find_if(command.options, [&](const DescribedOption& option) {
    return std::ranges::find(option.names, name) != option.names.end();
  });
  return found == command.options.end() ? nullptr : &*found;
}

// Joins the letter and the first word of an option; its other words are older spellings.
std::string usual_names(const DescribedOption& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(name);
    if (name.starts_with("--")) break;
  }
  return joined(names, ", ");
}

// Returns a line such as "  -m, --model M               Model: ..", in which the first of many
// words stands for all.
std::string option_line(const DescribedOption& option) {
  constexpr std::size_t kWidth = 26;
  std::string names = usual_names(option);
  std::string type = option.type.empty() ? "" : " " + option.type;
  if (names.size() + type.size() >= kWidth) type = type.substr(0, type.find('|')) + "|..";
  return fmt::format("  {:<{}}{}\n", names + type, kWidth, option.help);
}

std::string_view where_it_runs(RunsOn backend) {
  switch (backend) {
    case RunsOn::kCpu:
      return "runs on CPUs";
    case RunsOn::kCuda:
      return "runs on NVIDIA GPUs";
    case RunsOn::kNowhere:
      return "planned and simulated only";
  }
  return "";
}

std::string kernel_sets_page() {
  std::string text =
      "Kernel sets: the kernels that a plan is made for; unfused ones store attention scores.\n"
      "\nUsage: zplan plan --model M --cluster C --kernel-set ID\n\n";
  for (const KernelSet& set : kernel_sets())
    text += fmt::format("  {:<28}  {}\n", set.id, where_it_runs(set.runs_on));
  return text +
         "\nExamples:\n  ./zplan plan --model gpt2 --cluster dgx-h100 --kernel-set "
         "cuda.sm90.bf16\n";
}

std::string all_page(const std::vector<SubcommandEntry>& commands) {
  std::string text =
      "zplan SUBCOMMAND: what each does\n\nUsage: zplan SUBCOMMAND [options]\n"
      "\nSubcommands (zplan SUBCOMMAND --help shows their options):\n";
  for (const SubcommandEntry& command : commands)
    text += fmt::format("  {:<11}  {}\n", command.name, command.summary);
  text +=
      "\nPages:\n"
      "  zplan help pins         options that pin a decision of the plan\n"
      "  zplan help kernel-sets  kernels to plan for\n"
      "  zplan manual            all subcommands and options in one page for man\n";
  return text + kTopExamples + fmt::format("\nExit codes: {}.\n", kExitCodes);
}

}  // namespace

std::string first_page(const DescribedCommand& top, const std::vector<SubcommandEntry>& commands) {
  std::string text = fmt::format("{}\n\nUsage: {}\n\n", top.about, top.usage);
  for (const VerbLine& line : kVerbs) {
    std::vector<std::string_view> names;
    for (const SubcommandEntry& command : commands)
      if (command.verb == line.verb) names.push_back(command.name);
    text += fmt::format("  {:<12} {:<36} {}\n", line.word, line.what, joined(names, ", "));
  }
  text += "\nOptions (zplan plan --help shows the others):\n";
  for (const std::string_view name : kFirstOptions) {
    const DescribedOption* const option = find(top, name);
    if (option == nullptr) continue;
    if (name == "--zero")
      text += fmt::format("  {:<26}{}\n", "--zero, --tp, --pp .. N",
                          "Pins: decisions of the plan (zplan help pins)");
    else
      text += option_line(*option);
  }
  return text + kTopExamples +
         "\nMore: zplan help all, zplan help pins, zplan SUBCOMMAND --help, zplan manual, "
         "zplan --version\n";
}

std::optional<std::string> help_page(std::string_view name,
                                     const std::vector<SubcommandEntry>& commands) {
  if (name == "pins") return pins_page();
  if (name == "kernel-sets") return kernel_sets_page();
  if (name == "all") return all_page(commands);
  return std::nullopt;
}

}  // namespace zplan
