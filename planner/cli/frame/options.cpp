#include "planner/cli/frame/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "models/model_spelling.h"
#include "planner/cli/frame/completion.h"
#include "planner/cli/frame/manual.h"
#include "planner/cli/frame/question_words.h"
#include "planner/cli/frame/schemas.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

using Arguments = std::vector<std::string>;

constexpr const char* kExitCodes =
    "0 done, 1 does not fit, 2 bad input, 3 internal error, 4 device, 5 check failed,\n"
    "130 interrupted";

DescribedCommand described_top_level();
std::vector<DescribedCommand> described_commands();

Command parse_completion(const Arguments& arguments) {
  std::string shell;
  Syntax syntax("Print a script that completes subcommands, options, names and values at a prompt",
                "zplan completion bash|zsh|fish",
                "\nExamples:\n"
                "  source <(./zplan completion bash)\n"
                "  ./zplan completion zsh > ~/.zsh/_zplan\n"
                "  ./zplan completion fish > ~/.config/fish/completions/zplan.fish\n");
  const std::vector<std::string> known(std::begin(kShells), std::end(kShells));
  const std::string name = joined(known, "|");
  syntax.positional(name, shell, "The shell");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (std::find(known.begin(), known.end(), shell) == known.end())
    throw_bad_input(fmt::format("expected a shell, {}, got {}{}", joined(known, " or "),
                                in_quotes(shell), did_you_mean(shell, known)));
  return ShowText{completion_script(shell, described_commands())};
}

Command parse_manual(const Arguments& arguments) {
  Syntax syntax("Print the manual page: all subcommands and options", "zplan manual",
                "\nExamples:\n"
                "  ./zplan manual > zplan.1; man -l zplan.1\n");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return ShowText{manual_page(described_top_level(), described_commands(), kExitCodes)};
}

Command parse_schema(const Arguments& arguments) {
  std::string name;
  Syntax syntax(
      "List what --json prints and what is read, by its tags, or describe one as a JSON Schema",
      "zplan schema [TAG]",
      "\nExamples:\n"
      "  ./zplan schema\n"
      "  ./zplan schema zplan.sweep/1\n"
      "  ./zplan schema zplan.model/1 > model.schema.json\n");
  syntax.positional("TAG", name, "Of the file's member \"schema\", or its word: sweep");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!name.empty()) return ShowText{schema_text(name)};
  return ShowText{fmt::format("{}\n", joined(schema_tags(), "\n"))};
}

struct Subcommand {
  std::string_view name;
  std::string_view summary;
  Command (*parse)(const Arguments&);
};
constexpr Subcommand kSubcommands[] = {
    {"plan", "Find a plan for a model on a cluster; the name may be left out", parse_plan},
    {"simulate", "Predict the step of a plan in detail; write its trace", parse_simulate},
    {"memory", "Show what a plan holds in memory, beside DeepSpeed's estimates", parse_memory},
    {"bandwidth", "Show what each state needs of the links between tiers, and its cost",
     parse_bandwidth},
    {"lower", "Print the training step of a plan as a list of operations (.zprog)", parse_lower},
    {"run", "Train with a plan on this machine", parse_run},
    {"compare", "Compare the timelines of a simulation and a run", parse_compare},
    {"explain", "Show what a number of a plan is made of: formula, terms, sources", parse_explain},
    {"why-not", "Show why the best plan is not one of a family or with pins", parse_why_not},
    {"diff", "Compare two plans: decisions, memory, step, time by kind of operation", parse_diff},
    {"report", "Write a page that shows a plan: memory, time, alternatives", parse_report},
    {"sensitivity", "Say what each quantity of the hardware is worth: shadow prices",
     parse_sensitivity},
    {"sweep", "Find a plan for every point of a grid of questions", parse_sweep},
    {"what-if", "Say what other hardware would bring, and why", parse_what_if},
    {"max", "Show the largest model that a cluster trains, by family of plans", parse_max},
    {"need", "Show the fewest nodes of each kind that train a model", parse_need},
    {"goodput", "Show how long a number of tokens takes with failures and checkpoints",
     parse_goodput},
    {"export", "Write a plan as the configuration of a training framework", parse_export},
    {"check", "Say whether a framework's configuration fits, how fast, what is wrong", parse_check},
    {"validate", "Compare predictions with the steps and memory of published runs", parse_validate},
    {"runs", "Print a record of a training run to edit, or old records in the new form",
     parse_run_records},
    {"models", "List the models, or show one", parse_models},
    {"clusters", "List the kinds of nodes, or show a cluster", parse_clusters},
    {"doctor", "Show what this machine has for zplan, and what is missing for what", parse_doctor},
    {"calibrate", "Measure this machine for a profile, or say what to measure", parse_calibrate},
    {"completion", "Print a script that completes what you type: bash, zsh, fish",
     parse_completion},
    {"manual", "Print the manual page: all subcommands and options", parse_manual},
    {"schema", "Describe what --json prints, and model and node files", parse_schema},
};

std::vector<DescribedCommand> described_commands() {
  std::vector<DescribedCommand> commands;
  for (const Subcommand& subcommand : kSubcommands) {
    const Command table = subcommand.parse({std::string(kDescribe)});
    commands.push_back(
        read_description(std::string(subcommand.name), std::get<ShowText>(table).text));
  }
  return commands;
}

constexpr const char* kTopExamples =
    "\nExamples:\n"
    "  ./zplan --model 1T --cluster dgx2x32\n"
    "  ./zplan --model tiny-gpt --cluster workstation -o plan.json\n"
    "  ./zplan simulate plan.json --trace trace.json\n"
    "  ./zplan run plan.json --steps 10 --check\n";

DescribedCommand described_top_level() {
  const Command table = parse_top_level({std::string(kDescribe)}, kTopExamples);
  return read_description("zplan", std::get<ShowText>(table).text);
}

std::string top_footer() {
  std::string text = "\nSubcommands (zplan SUBCOMMAND --help shows their options):\n";
  for (const Subcommand& subcommand : kSubcommands)
    text += fmt::format("  {:<11}  {}\n", subcommand.name, subcommand.summary);
  return text + kTopExamples + fmt::format("\nExit codes: {}.\n", kExitCodes);
}

[[noreturn]] void fail_unknown(const std::string& word) {
  std::vector<std::string> names;
  for (const Subcommand& subcommand : kSubcommands) names.emplace_back(subcommand.name);
  std::string nearest = did_you_mean(word, names);
  if (nearest.empty()) nearest = nearest_model_name(word);
  throw_bad_input(fmt::format(
      "unknown subcommand or model {}{} (zplan --help lists the subcommands, zplan models the "
      "models)",
      in_quotes(word), nearest));
}

// What follows the name of a subcommand, with the question that words ask as options.
Arguments with_question_of(const Subcommand& subcommand, const Arguments& arguments) {
  const bool has_word = std::ranges::any_of(
      arguments, [](const std::string& word) { return !word.empty() && word[0] != '-'; });
  if (!has_word) return arguments;
  const Command table = subcommand.parse({std::string(kDescribe)});
  const DescribedCommand described =
      read_description(std::string(subcommand.name), std::get<ShowText>(table).text);
  return with_question(arguments, described, true);
}

}  // namespace

Command parse_arguments(const Arguments& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) {
    const bool version =
        std::find(arguments.begin(), arguments.end(), "--version") != arguments.end();
    if (version) return ShowText{"zplan " ZPLAN_VERSION "\n"};
    return parse_top_level(with_question(arguments, described_top_level(), true), top_footer());
  }
  if (arguments[0] == "help") {  // "help", "help run"
    Arguments asked{arguments.begin() + 1, arguments.end()};
    asked.emplace_back("--help");
    return parse_arguments(asked);
  }
  for (const Subcommand& subcommand : kSubcommands) {
    if (arguments[0] == subcommand.name) {
      return subcommand.parse(
          with_question_of(subcommand, {arguments.begin() + 1, arguments.end()}));
    }
  }
  const Arguments question = with_question(arguments, described_top_level(), false);
  if (question == arguments) fail_unknown(arguments[0]);
  return parse_top_level(question, top_footer());
}

}  // namespace zplan
