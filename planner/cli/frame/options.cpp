#include "planner/cli/frame/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "models/model_spelling.h"
#include "planner/cli/frame/completion.h"
#include "planner/cli/frame/help_pages.h"
#include "planner/cli/frame/hints.h"
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
  Verb verb;
  Command (*parse)(const Arguments&);
};
constexpr Subcommand kSubcommands[] = {
    {"plan", "Find a plan for a model on a cluster; the name may be left out", Verb::kAsk,
     parse_plan},
    {"simulate", "Predict the step of a plan in detail; write its trace", Verb::kCheck,
     parse_simulate},
    {"memory", "Show what a plan holds in memory, beside DeepSpeed's estimates", Verb::kCheck,
     parse_memory},
    {"bandwidth", "Show what each state needs of the links between tiers, and its cost",
     Verb::kCheck, parse_bandwidth},
    {"lower", "Print the training step of a plan as a list of operations (.zprog)", Verb::kCheck,
     parse_lower},
    {"run", "Train with a plan on this machine", Verb::kRun, parse_run},
    {"compare", "Compare the timelines of a simulation and a run", Verb::kCompare, parse_compare},
    {"explain", "Show what a number of a plan is made of: formula, terms, sources", Verb::kExplain,
     parse_explain},
    {"why-not", "Show why the best plan is not one of a family or with pins", Verb::kExplain,
     parse_why_not},
    {"diff", "Compare two plans: decisions, memory, step, time by kind of operation",
     Verb::kCompare, parse_diff},
    {"report", "Write a page that shows a plan: memory, time, alternatives", Verb::kExplain,
     parse_report},
    {"sensitivity", "Say what each quantity of the hardware is worth: shadow prices",
     Verb::kExplain, parse_sensitivity},
    {"sweep", "Find a plan for every point of a grid of questions", Verb::kAsk, parse_sweep},
    {"what-if", "Say what other hardware would bring, and why", Verb::kCompare, parse_what_if},
    {"max", "Show the largest model that a cluster trains, by family of plans", Verb::kAsk,
     parse_max},
    {"need", "Show the fewest nodes of each kind that train a model", Verb::kAsk, parse_need},
    {"goodput", "Show how long a number of tokens takes with failures and checkpoints", Verb::kAsk,
     parse_goodput},
    {"export", "Write a plan as the configuration of a training framework", Verb::kRun,
     parse_export},
    {"check", "Check a framework's configuration: does it fit, how fast, what to mend",
     Verb::kCheck, parse_check},
    {"validate", "Compare predictions with the steps and memory of published runs", Verb::kCompare,
     parse_validate},
    {"runs", "Print a record of a training run to edit, or old records in the new form",
     Verb::kCompare, parse_run_records},
    {"models", "List the models, or show one", Verb::kLookUp, parse_models},
    {"clusters", "List the kinds of nodes, or show a cluster", Verb::kLookUp, parse_clusters},
    {"software", "List the software that plans are made for, and what was measured with it",
     Verb::kAsk, parse_software},
    {"doctor", "Show what this machine has for zplan, and what is missing for what", Verb::kRun,
     parse_doctor},
    {"calibrate", "Measure this machine for a profile, or say what to measure", Verb::kRun,
     parse_calibrate},
    {"completion", "Print a script that completes what you type: bash, zsh, fish", Verb::kLookUp,
     parse_completion},
    {"manual", "Print the manual page: all subcommands and options", Verb::kLookUp, parse_manual},
    {"schema", "Describe what --json prints, and model and node files", Verb::kLookUp,
     parse_schema},
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

DescribedCommand described_top_level() {
  const Command table = parse_top_level({std::string(kDescribe)}, kTopExamples);
  return read_description("zplan", std::get<ShowText>(table).text);
}

std::vector<SubcommandEntry> entries() {
  std::vector<SubcommandEntry> all;
  for (const Subcommand& one : kSubcommands) all.push_back({one.name, one.summary, one.verb});
  return all;
}

[[noreturn]] void fail_unknown(const std::string& word) {
  std::vector<std::string> names;
  for (const Subcommand& subcommand : kSubcommands) names.emplace_back(subcommand.name);
  std::string advice = subcommand_advice(word, names);
  if (advice.empty()) advice = nearest_model_name(word);
  if (advice.empty()) advice = "; zplan help all lists the subcommands, zplan models the models";
  throw_bad_input(fmt::format("unknown subcommand or model {}{}", in_quotes(word), advice));
}

bool has_one_of(const Arguments& arguments, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    return std::ranges::find(words, argument) != words.end();
  });
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

Command parse_help(Arguments asked) {
  if (asked.size() == 1)
    if (std::optional<std::string> page = help_page(asked[0], entries()))
      return ShowText{*std::move(page)};
  asked.emplace_back("--help");
  return parse_arguments(asked);
}

}  // namespace

Command parse_arguments(const Arguments& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) {
    if (has_one_of(arguments, {"--version"})) return ShowText{"zplan " ZPLAN_VERSION "\n"};
    if (has_one_of(arguments, {"--help", "-h"}))
      return ShowText{first_page(described_top_level(), entries())};
    return parse_top_level(with_question(arguments, described_top_level(), true), kTopExamples);
  }
  // "help", "help run", "help pins"
  if (arguments[0] == "help") return parse_help({arguments.begin() + 1, arguments.end()});
  for (const Subcommand& subcommand : kSubcommands) {
    if (arguments[0] == subcommand.name) {
      return subcommand.parse(
          with_question_of(subcommand, {arguments.begin() + 1, arguments.end()}));
    }
  }
  const Arguments question = with_question(arguments, described_top_level(), false);
  if (question == arguments) fail_unknown(arguments[0]);
  return parse_top_level(question, kTopExamples);
}

}  // namespace zplan
