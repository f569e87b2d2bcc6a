#include "planner/cli/frame/question_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/program/job/limits.h"

namespace zplan {
namespace {

constexpr double kMostHeadroom = 0.9;

}  // namespace

int all_threads() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

void require_both(const PlanCommand& command, std::string_view call) {
  if (!command.model.empty() && !command.cluster.empty()) return;
  const bool both = command.model.empty() && command.cluster.empty();
  throw_bad_input(
      fmt::format("expected {}, as in: {} --model 1T --cluster dgx2x32 ({} --help shows more)",
                  both                    ? "--model and --cluster"
                  : command.model.empty() ? "--model"
                                          : "--cluster",
                  call, call));
}

std::vector<std::string> lasting(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--threads" || word == "--time") ++i;  // and its value
    const bool passing = word.starts_with("--threads") || word.starts_with("--time") ||
                         word == "--json" || word == "--details" || word == "--timing" ||
                         word == "--exhaustive" || word == "--sources";
    if (!passing) kept.push_back(word);
  }
  return kept;
}

void add_changes(Syntax& syntax, std::vector<std::string>& changes) {
  syntax.texts("--set", changes, "NAME=VALUE",
               "Change the hardware: nvme=50GB/s, network=x2 .. (zplan clusters C); repeated");
  syntax.parsed("--gpus-per-node", "N", "Nodes with N GPUs, as --set gpus_per_node=N",
                [&changes](const std::string& word) {
                  changes.push_back(fmt::format("gpus_per_node={}", word));
                });
}

void add_gpus(Syntax& syntax, Pins& pins, const std::string& names) {
  syntax.parsed(names, "N", "Number of GPUs to use, of the cluster's [all]",
                [&pins](const std::string& word) {
                  if (word.find(',') != word.npos)
                    throw_bad_input(fmt::format(
                        "--gpus: expected a number of GPUs, got {}; type --gpu-indices {} for the "
                        "GPUs of each node that ranks use",
                        in_quotes(word), word));
                  const auto number = number_with(word, {{"", 1}});
                  if (!number || *number > kMaxRanks || *number != std::floor(*number))
                    throw_bad_input(
                        fmt::format("--gpus: expected a whole number from 1 to {}, got {}; "
                                    "--gpu-indices takes a list of GPUs",
                                    kMaxRanks, in_quotes(word)));
                  pins.ranks = static_cast<std::int64_t>(*number);
                });
}

void add_measured(Syntax& syntax, Measured& measured) {
  syntax.parsed_each("--measured", "X",
                     "Your measured step or memory: 5.2s, 38%MFU, 61GiB ..; one of each",
                     [&measured](const std::string& word) { measured.add(word); });
}

void add_measured_plan(Syntax& syntax, std::string& plan, const std::string& help) {
  syntax.text("--of", plan, "PLAN.json", help);
}

void check_measured(const Measured& measured, const std::string& plan) {
  if (!plan.empty() && measured.is_empty())
    throw_bad_input("--of: expected --measured beside it, as in: --measured 5.2s --of plan.json");
}

void add_constraints(Syntax& syntax, PlanCommand& command) {
  syntax.texts("--only", command.only, "KEY=VALUES",
               "Only plans with one of these values: zero=2,3, tp=1..8; repeated");
  syntax.texts("--not", command.never, "KEY[=VALUES]",
               "No plans with optimizer=nvme, offload, recomputation, tensor ..; repeated");
}

void add_question(Syntax& syntax, PinOptions& pins, PlanCommand& command) {
  syntax.text("-m,--model", command.model, "M",
              "Model: a name (zplan models), a .json file or a folder of Hugging Face");
  syntax.text("-c,--cluster", command.cluster, "C",
              "Cluster: 16xH100, NODExCOUNT (zplan clusters) or a .json file");
  syntax.text("--for,--stack", command.stack, "SOFTWARE",
              "Software that trains: megatron, torchtitan, hf .. (zplan software)");
  syntax.text("--anchor", command.anchor, "RUN.jsonl",
              "Your calibration runs (zplan.runs/2): they correct the software's rates");
  add_gpus(syntax, command.pins);
  add_changes(syntax, command.changes);
  pins.add("/batch/global_batch", syntax, command.pins);
  pins.add("/batch/sequence", syntax, command.pins);
  add_constraints(syntax, command);
  syntax.parsed("--max-gpu-memory", "SIZE", "Memory of each GPU that a plan may use at most: 60GiB",
                [&command](const std::string& word) {
                  const auto size = parse_bytes(word);
                  if (!size || size->value <= 0)
                    throw_bad_input(fmt::format("--max-gpu-memory: expected {}, got {}",
                                                kBytesExpected, in_quotes(word)));
                  command.most_gpu_memory = *size;
                });
}

void add_threads(Syntax& syntax, int& threads) {
  syntax.integer("--threads", threads, 1, kMaxThreads,
                 "Threads of the search; the result does not depend on them [all]");
}

void add_headroom(Syntax& syntax, double& headroom) {
  syntax.share("--headroom", headroom, kMostHeadroom,
               "Fraction of GPU memory left free for fragmentation [0.05]");
}

void add_effort(Syntax& syntax, PlanCommand& command) {
  add_threads(syntax, command.threads);
  syntax.integer("--simulations", command.simulations, 1, kMaxSimulations,
                 "Stop after so many simulations (or up to 4 more), whatever the budget");
  syntax.integer("--search-budget", command.budget, 0, kMostBudget,
                 fmt::format("Millions of operations to simulate at most [{}; with --time any]",
                             kUsualBudget));
  syntax.duration("--time",
                  "Stop after that time with the best plan so far, which depends on the machine",
                  command.time);
  add_headroom(syntax, command.headroom);
}

std::optional<ShowText> read_with_question(Syntax& syntax,
                                           const std::vector<std::string>& arguments,
                                           PinOptions& pins, PlanCommand& question,
                                           std::string_view call) {
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  require_both(question, call);
  pins.finish(question.pins);
  return std::nullopt;
}

std::string pinned_option(const Pins& pins) {
  if (pins.ranks > 0) return "--gpus";
  if (!pins.recipes.empty()) return "--precision";
  if (pins.bucket) return "--bucket";
  for (const Decision& row : kChoices)
    if (pins.has(row.pointer)) return std::string(row.option.name);
  return "";
}

void add_source(Syntax& syntax, PinOptions& pins, PlanSource& source) {
  PlanCommand& question = source.question;
  question.threads = all_threads();
  syntax.positional("PLAN.json", source.plan, "The plan (zplan plan .. -o PLAN.json)");
  syntax.text("-m,--model", question.model, "M",
              "Instead of a plan file: the model to find a plan for, as zplan plan does");
  syntax.text("-c,--cluster", question.cluster, "C",
              "Cluster; with a plan file, another one than it names");
  syntax.text("--for,--stack", question.stack, "SOFTWARE",
              "Software that trains: megatron, torchtitan, hf .. (zplan software)");
  add_gpus(syntax, question.pins);
  add_changes(syntax, question.changes);
  pins.add("/batch/global_batch", syntax, question.pins);
  pins.add("/batch/sequence", syntax, question.pins);
  add_constraints(syntax, question);
  add_effort(syntax, question);
  syntax.flag("--ignore-capacity", question.ignore_capacity,
              "Accept a plan that does not fit, or the one that is least over");
}

std::optional<ShowText> read_with_source(Syntax& syntax, const std::vector<std::string>& arguments,
                                         PinOptions& pins, PlanSource& source) {
  pins.add_others(syntax, source.question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  pins.finish(source.question.pins);
  return std::nullopt;
}

void fail_without_plan(std::string_view subcommand) {
  throw_bad_input(fmt::format(
      "expected a plan file, as in: zplan {} plan.json (zplan plan .. -o plan.json makes one)",
      subcommand));
}

void require_one_source(const PlanSource& source, std::string_view subcommand) {
  const PlanCommand& question = source.question;
  const bool asks = !question.model.empty();
  if (source.plan.empty() && !asks) {
    const bool one = !question.cluster.empty();
    throw_bad_input(fmt::format(
        "expected a plan file or --model and --cluster{}, as in: zplan {} plan.json, or zplan {} "
        "--model 1T --cluster dgx2x32",
        one ? ", got --cluster alone" : "", subcommand, subcommand));
  }
  if (source.plan.empty()) return require_both(question, fmt::format("zplan {}", subcommand));
  const std::string option = asks                      ? "--model"
                             : !question.only.empty()  ? "--only"
                             : !question.never.empty() ? "--not"
                                                       : pinned_option(question.pins);
  if (!option.empty())
    throw_bad_input(fmt::format("{}: expected no plan file, which has decided it already, got {}",
                                option, in_quotes(source.plan)));
}

}  // namespace zplan
