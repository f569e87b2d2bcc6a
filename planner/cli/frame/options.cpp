#include "planner/cli/frame/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "hwprofiles/quantities.h"
#include "planner/cli/frame/completion.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/schemas.h"
#include "planner/cli/frame/syntax.h"
#include "planner/cli/sizing/sizing_options.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

using Arguments = std::vector<std::string>;

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxTimeout = 86'400;  // a day, in seconds
constexpr std::int64_t kMaxRunSteps = 1'000'000;
constexpr std::int64_t kMaxSimulations = 1'000'000'000;
constexpr std::int64_t kMaxBudget = 1'000'000'000;  // millions
constexpr std::int64_t kMaxSimulatedSteps = 1000;
constexpr double kMostHeadroom = 0.9;

constexpr const char* kHeadroomHelp =
    "Of a GPU's memory, left free for what allocators lose [0.05]";

constexpr const char* kTopFooter =
    "\nSubcommands (zplan SUBCOMMAND --help shows their options):\n"
    "  plan       Find a plan for a model on a cluster; the name may be left out\n"
    "  simulate   Predict the step of a plan in detail; write its trace\n"
    "  memory     Show what a plan holds in memory, beside DeepSpeed's estimates\n"
    "  bandwidth  Show what each state needs of the links between tiers, and what it costs\n"
    "  lower      Print the training step of a plan as a list of operations (.zprog)\n"
    "  run        Train with a plan on this machine\n"
    "  compare    Compare the timelines of a simulation and a run\n"
    "  validate   Compare predictions with the step times and memory of published runs\n"
    "  models     List the models, or show one\n"
    "  clusters   List the kinds of nodes, or show a cluster\n"
    "  doctor     Show what this machine has for zplan, and what is missing for what\n"
    "  calibrate  Measure this machine's device for a profile, or say what to measure (--suggest)\n"
    "  sweep      Find a plan for every point of a grid of questions\n"
    "  what-if    Say what other hardware would bring, and why\n"
    "  sensitivity Say what each quantity of the hardware is worth: shadow prices of the step\n"
    "  diff       Compare two plans: decisions, memory, step, time by kind of operation\n"
    "  completion Print a script that completes what you type: bash, zsh, fish\n"
    "  schema     Describe what --json prints\n"
    "  max        Show the largest model that a cluster trains, by family of plans\n"
    "  goodput    Show how long a number of tokens takes with failures and checkpoints\n"
    "  need       Show the fewest nodes of each kind that train a model\n"
    "  explain    Show what a number of a plan is made of: formula, terms, units, source, "
    "operations\n"
    "  why-not    Show why the best plan is not one of a family or with pins: bytes or seconds\n"
    "\n"
    "Examples:\n"
    "  ./zplan --model 1T --cluster dgx2x32\n"
    "  ./zplan --model tiny-gpt --cluster workstation -o plan.json\n"
    "  ./zplan simulate plan.json --trace trace.json\n"
    "  ./zplan run plan.json --steps 10 --check\n"
    "\n"
    "Exit codes: 0 done, 1 does not fit, 2 bad input, 3 internal error, 4 device, 5 check failed,\n"
    "130 interrupted.\n";

constexpr const char* kPlanFooter =
    "\nExamples:\n"
    "  ./zplan plan --model 1T --cluster dgx2x32\n"
    "  ./zplan plan --model gpt2 --cluster dgx2 --global-batch 256 --zero 3 --json\n"
    "  ./zplan plan --model my-model.json --cluster my-node.jsonx4 -o plan.json\n";

// `call`: what stands before its options.
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

// Without what changes how the answer is found or shown, but not the plan.
Arguments lasting(const Arguments& arguments) {
  Arguments kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--threads" || word == "--time") ++i;  // and its value
    const bool passing = word.starts_with("--threads") || word.starts_with("--time") ||
                         word == "--json" || word == "--timing" || word == "--exhaustive" ||
                         word == "--sources";
    if (!passing) kept.push_back(word);
  }
  return kept;
}

// Other hardware than the cluster's.
void add_changes(Syntax& syntax, std::vector<std::string>& changes) {
  syntax.texts("--set", changes, "NAME=VALUE",
               "Other hardware, repeated: nvme=50GB/s, network=x2 .. (zplan clusters C)");
}

// What a plan is asked for.
void add_question(Syntax& syntax, PinOptions& pins, PlanCommand& command) {
  syntax.text("-m,--model", command.model, "M", "Model: a name (zplan models) or a .json file");
  syntax.text("-c,--cluster", command.cluster, "C",
              "NODE or NODExCOUNT (zplan clusters), or a .json file");
  syntax.text("--stack", command.stack, "S",
              "Whose software: megatron2022, nemo2024 .., a .json file [own]");
  syntax.text("--anchor", command.anchor, "RUN.jsonl",
              "Measured runs of yours (zplan.runs/1); the stack's rates follow them");
  add_changes(syntax, command.changes);
  pins.add("/batch/global_batch", syntax, command.pins);
  pins.add("/batch/sequence", syntax, command.pins);
  syntax.texts("--only", command.only, "KEY=VALUES",
               "Only plans with one of these values: zero=2,3, tp=1..8; may be repeated");
  syntax.texts("--not", command.never, "KEY[=VALUES]",
               "No plans with: optimizer=nvme; offload, nvme, recomputation, tensor ..");
  syntax.parsed("--max-gpu-memory", "SIZE", "Of each GPU, that a plan may take at most, e.g. 60GiB",
                [&command](const std::string& word) {
                  const auto size = parse_bytes(word);
                  if (!size || size->value <= 0)
                    throw_bad_input(fmt::format("--max-gpu-memory: expected {}, got {}",
                                                kBytesExpected, in_quotes(word)));
                  command.most_gpu_memory = *size;
                });
}

void add_effort(Syntax& syntax, PlanCommand& command) {
  syntax.integer("--threads", command.threads, 1, kMaxThreads,
                 "Threads that search; the result is the same [all]");
  syntax.integer("--simulations", command.simulations, 1, kMaxSimulations,
                 "Stop after so many (or up to 4 more), whatever the budget");
  syntax.integer("--budget", command.budget, 0, kMaxBudget,
                 "Millions of operations to simulate before it stops with a gap [10]");
  syntax.duration("--time", "Stop after so long with the best so far, which depends on the machine",
                  command.time);
  syntax.share("--headroom", command.headroom, kMostHeadroom, kHeadroomHelp);
}

int all_threads() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

Command parse_plan(const Arguments& arguments, bool top_level) {
  PlanCommand command;
  command.arguments = lasting(arguments);
  command.threads = all_threads();
  PinOptions pins;
  bool version = false;  // taken before; here for the help
  Syntax syntax(
      top_level ? "zplan: can this cluster train this model, with which plan, how fast, "
                  "and what limits it"
                : "Find a plan for a model on a cluster: the simplest within 2 % of the fastest",
      top_level ? "zplan --model M --cluster C [options], or zplan SUBCOMMAND .."
                : "zplan plan --model M --cluster C [options]",
      top_level ? kTopFooter : kPlanFooter);
  add_question(syntax, pins, command);
  syntax.text("-o,--output", command.output, "FILE", "Write the plan, for simulate, lower and run");
  syntax.flag("--ignore-capacity", command.ignore_capacity,
              "When no plan fits, answer with the one that is least over");
  add_effort(syntax, command);
  syntax.flag("--exhaustive", command.exhaustive, "Simulate every plan that fits");
  syntax.integer("--top", command.top, 1, kMaxSimulations,
                 "Also list the fastest N of the plans simulated");
  syntax.flag("--pareto", command.pareto,
              "Also list those that no other beats in step, GPU memory and GPUs");
  syntax.flag("--timing", command.timing, "Also say how long planning took");
  syntax.flag("--sources", command.sources,
              "Cite the source of each figure in full, not its key alone");
  syntax.flag("--json", command.json, "Print JSON (zplan.answer/1)");
  if (top_level) syntax.flag("--version", version, "Show the version and exit");
  pins.add_others(syntax, command.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  require_both(command, "zplan");
  pins.finish(command.pins);
  return command;
}

// The arguments that name a plan and, where the subcommand asks, the cluster that it is for.
template <typename PlanReader>
void add_plan(Syntax& syntax, PlanReader& command) {
  syntax.positional("PLAN.json", command.plan, "The plan (zplan plan .. -o PLAN.json)");
  if constexpr (requires { command.cluster; })
    syntax.text("-c,--cluster", command.cluster, "C", "Another cluster than the plan names");
}

// The end of a subcommand that reads a plan.
template <typename PlanReader>
Command read_with_plan(Syntax& syntax, const Arguments& arguments, PlanReader& command,
                       const char* subcommand) {
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!command.plan.empty()) return std::move(command);
  throw_bad_input(fmt::format(
      "expected a plan file, as in: zplan {} plan.json (zplan plan .. -o plan.json makes one)",
      subcommand));
}

Command parse_simulate(const Arguments& arguments) {
  SimulateCommand command;
  Syntax syntax("Predict the step of a plan in detail", "zplan simulate PLAN.json [options]",
                "\nExamples:\n"
                "  ./zplan simulate plan.json --trace trace.json   (open it in ui.perfetto.dev)\n"
                "  ./zplan simulate plan.json --cluster dgx-a100x32 --ignore-capacity\n");
  add_plan(syntax, command);
  syntax.text("--stack", command.stack, "S",
              "Whose software sets the costs: nemo2024 .. or a .json file [own]");
  syntax.text("--anchor", command.anchor, "RUN.jsonl",
              "Measured runs of yours (zplan.runs/1); the stack's rates follow them");
  add_changes(syntax, command.changes);
  syntax.share("--headroom", command.headroom, kMostHeadroom, kHeadroomHelp);
  syntax.flag("--ignore-capacity", command.ignore_capacity,
              "Simulate a plan that does not fit, too");
  syntax.integer("--steps", command.steps, 1, kMaxSimulatedSteps,
                 "Steps to simulate [until the step time is steady]");
  syntax.flag("--homes", command.homes,
              "Also compare the homes of kept tensors with the choices of named methods");
  syntax.text("--trace", command.trace, "FILE", "Write the timeline as Chrome trace JSON");
  syntax.text("--timeline", command.timeline, "FILE", "Write the timeline (zplan.timeline/1)");
  syntax.flag("--json", command.json, "Print JSON (zplan.simulation/1)");
  return read_with_plan(syntax, arguments, command, "simulate");
}

// The first option that pins a decision; empty: none does.
std::string pinned_option(const Pins& pins) {
  if (!pins.recipes.empty()) return "--precision";
  if (pins.bucket) return "--bucket";
  for (const Decision& row : kChoices)
    if (pins.has(row.pointer)) return std::string(row.option.name);
  return "";
}

// What of a question a plan in a file has decided already.
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
  const std::string option = asks ? "--model" : pinned_option(question.pins);
  if (!option.empty())
    throw_bad_input(fmt::format("{}: expected no plan file, which has decided it already, got {}",
                                option, in_quotes(source.plan)));
}

// A plan file, or the question that a plan answers.
void add_source(Syntax& syntax, PinOptions& pins, PlanSource& source) {
  PlanCommand& question = source.question;
  question.threads = all_threads();
  syntax.positional("PLAN.json", source.plan, "The plan (zplan plan .. -o PLAN.json)");
  syntax.text("-m,--model", question.model, "M",
              "Instead: the model to find a plan for, as zplan plan does");
  syntax.text("-c,--cluster", question.cluster, "C",
              "Where to; with a plan file, another cluster than it names");
  syntax.text("--stack", question.stack, "S",
              "Whose software: megatron_core .. or a .json file [own]");
  add_changes(syntax, question.changes);
  pins.add("/batch/global_batch", syntax, question.pins);
  pins.add("/batch/sequence", syntax, question.pins);
  add_effort(syntax, question);
  syntax.flag("--ignore-capacity", question.ignore_capacity,
              "Also of a plan that does not fit, or the one that is least over");
}

// After the options of the subcommand those of pins; the help, where it was asked for.
std::optional<ShowText> read_with_source(Syntax& syntax, const Arguments& arguments,
                                         PinOptions& pins, PlanSource& source) {
  pins.add_others(syntax, source.question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  pins.finish(source.question.pins);
  return std::nullopt;
}

Command parse_memory(const Arguments& arguments) {
  MemoryCommand command;
  PinOptions pins;
  Syntax syntax("Show what a plan holds in memory, by tier, stage and category",
                "zplan memory PLAN.json [options], or zplan memory --model M --cluster C [options]",
                "\nExamples:\n"
                "  ./zplan memory plan.json\n"
                "  ./zplan memory plan.json --deepspeed\n"
                "  ./zplan memory --model llama3-70b --cluster dgx-h100x16\n");
  add_source(syntax, pins, command.source);
  syntax.flag("--deepspeed", command.deepspeed,
              "Also what DeepSpeed's documented estimators say, and why it differs");
  syntax.flag("--json", command.json, "Print JSON (zplan.memory/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  require_one_source(command.source, "memory");
  return command;
}

// The paper's figures are of no plan, model or cluster.
void require_no_plan(const PlanSource& source) {
  const PlanCommand& question = source.question;
  const std::string option = !question.model.empty()     ? "--model"
                             : !question.cluster.empty() ? "--cluster"
                             : !question.stack.empty()   ? "--stack"
                                                         : pinned_option(question.pins);
  if (source.plan.empty() && option.empty()) return;
  throw_bad_input(fmt::format("--paper: expected nothing else but --json, got {}",
                              option.empty() ? in_quotes(source.plan) : option));
}

Command parse_bandwidth(const Arguments& arguments) {
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
              "Instead ZeRO-Infinity's own curves (Fig. 3) and devices (Table 3)");
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

Command parse_lower(const Arguments& arguments) {
  LowerCommand command;
  Syntax syntax("Print the training step of a plan as a list of operations (.zprog)",
                "zplan lower PLAN.json [options]",
                "\nExamples:\n"
                "  ./zplan lower plan.json | less\n"
                "  ./zplan lower plan.json -o plan.zprog\n");
  add_plan(syntax, command);
  syntax.text("-o,--output", command.output, "FILE", "Write there instead of to stdout");
  syntax.flag("--no-place", command.no_place, "Leave out addresses and reuse edges");
  return read_with_plan(syntax, arguments, command, "lower");
}

Command parse_run(const Arguments& arguments) {
  RunCommand command;
  Syntax syntax(
      "Train with a plan on this machine: ranks are threads, or processes that a launcher starts",
      "zplan run PLAN.json [options]",
      "\nExamples:\n"
      "  ./zplan plan --model tiny-gpt --cluster workstation -o plan.json\n"
      "  ./zplan run plan.json --steps 10 --check\n"
      "  ./zplan run plan.json --steps 100 --data book.txt --dtype f64\n"
      "  torchrun --nproc-per-node 8 --no-python ./zplan run plan.json\n"
      "  srun ./zplan run plan.json;  mpirun -n 8 ./zplan run plan.json\n");
  syntax.positional("PLAN.json", command.plan, "The plan; its kernel set says what it runs on");
  syntax.integer("--steps", command.steps, 1, kMaxRunSteps, "Optimizer steps [10]");
  syntax.flag("--check", command.check, "Compare with a run of one rank with nothing offloaded");
  syntax.text("--data", command.data, "FILE", "Text to train on, a token per byte [a sample]");
  syntax.text("--train", command.train, "FILE", "Learning rate etc., JSON (zplan.train/1)");
  syntax.integer("--seed", command.seed, 0, std::numeric_limits<std::int64_t>::max(),
                 "Of initial values and data order [0, or as in --train]");
  syntax.choice<std::string, std::string>("--dtype", command.dtype,
                                          "Number format of the whole run [the plan's]",
                                          {{"f32", "f32"}, {"f64", "f64"}});
  syntax.integer("--threads-per-rank", command.threads_per_rank, 1, kMaxThreads,
                 "Threads inside the kernels of a rank [1]");
  syntax.choice<BackendChoice, BackendChoice>(
      "--backend", command.backend, "What it must run on [as the kernel set says]",
      {{"cpu", BackendChoice::kCpu}, {"cuda", BackendChoice::kCuda}});
  syntax.integer("--comm-timeout", command.comm_timeout_seconds, 1, kMaxTimeout,
                 "Seconds that a process waits for another one [600]");
  syntax.text("--nvme-dir", command.nvme_directory, "DIR",
              "Folder on the drive that holds what the plan keeps on NVMe");
  syntax.choice<exec::IoMethod, exec::IoMethod>(
      "--io", command.io, "How it is read and written [auto: uring where it works]",
      {{"auto", exec::IoMethod::kAuto},
       {"uring", exec::IoMethod::kUring},
       {"posix", exec::IoMethod::kPosix}});
  syntax.flag("--ignore-capacity", command.ignore_capacity,
              "Train with a plan that does not fit its hardware, too");
  syntax.flag("--test-mode", command.test_mode,
              "One operation at a time, each checked for touching only its buffers");
  syntax.text("--trace", command.trace, "FILE", "Write the timeline as Chrome trace JSON");
  syntax.text("--timeline", command.timeline, "FILE", "Write the timeline (zplan.timeline/1)");
  syntax.flag("--json", command.json, "Print JSON (zplan.run/1)");
  return read_with_plan(syntax, arguments, command, "run");
}

Command parse_compare(const Arguments& arguments) {
  CompareCommand command;
  Syntax syntax("Compare the timelines of a simulation and a run, operation by operation",
                "zplan compare SIM.json EXEC.json [options]",
                "\nExamples:\n"
                "  ./zplan simulate plan.json --timeline sim.json\n"
                "  ./zplan run plan.json --timeline exec.json\n"
                "  ./zplan compare sim.json exec.json\n");
  syntax.positional("SIM.json", command.simulated, "Timeline of zplan simulate");
  syntax.positional("EXEC.json", command.executed, "Timeline of zplan run");
  syntax.choice<JoinBy, JoinBy>(
      "--by", command.join, "What tells operations apart; role joins different plans [operation]",
      {{"operation", JoinBy::kOperation}, {"role", JoinBy::kRole}});
  syntax.flag("--json", command.json, "Print JSON (zplan.comparison/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!command.executed.empty()) return command;
  throw_bad_input("expected two timelines, as in: zplan compare sim.json exec.json");
}

Command parse_validate(const Arguments& arguments) {
  ValidateCommand command;
  command.threads = all_threads();
  Syntax syntax(
      "Compare predictions with published runs: each is planned as it says and simulated",
      "zplan validate RUNS.jsonl [options]",
      "\nA line that is no record is reported and left out; the exit code is 5 then. What a plan\n"
      "cannot express is listed as not supported.\n"
      "\nExamples:\n"
      "  ./zplan validate runs.jsonl\n"
      "  ./zplan validate runs.jsonl --group vtrain_multi --html report.html\n");
  syntax.positional("RUNS.jsonl", command.runs, "Published runs (zplan.runs/1), a record a line");
  syntax.text("--group", command.group, "G", "Only the runs of this group");
  syntax.text("--stack", command.stack, "NAME",
              "Software of all runs: a name or a .json file [each record's own]");
  syntax.text("--anchor", command.anchor, "RUN.jsonl",
              "Measured runs of yours (zplan.runs/1); the stack's rates follow them");
  syntax.text("--html", command.html, "FILE", "Write a page with a plot and all runs");
  syntax.integer("--threads", command.threads, 1, kMaxThreads,
                 "Threads that simulate; the result is the same [all]");
  syntax.flag("--json", command.json, "Print JSON (zplan.validation/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!command.runs.empty()) return command;
  throw_bad_input("expected a file of runs, as in: zplan validate runs.jsonl");
}

Command parse_models(const Arguments& arguments) {
  ModelsCommand command;
  Syntax syntax("List the models, or show one with its sources", "zplan models [NAME] [options]",
                "\nExamples:\n  ./zplan models\n  ./zplan models gpt3 --json\n");
  syntax.positional("NAME", command.name, "A name, or a .json file");
  syntax.flag("--json", command.json, "Print JSON (zplan.models/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return command;
}

Command parse_clusters(const Arguments& arguments) {
  ClustersCommand command;
  Syntax syntax("List the kinds of nodes, or show a cluster with the sources of its numbers",
                "zplan clusters [NAME] [options]",
                "\nExamples:\n  ./zplan clusters\n  ./zplan clusters dgx2x32\n");
  syntax.positional("NAME", command.name, "NODE or NODExCOUNT, or a .json file");
  syntax.flag("--json", command.json, "Print JSON (zplan.clusters/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return command;
}

Command parse_doctor(const Arguments& arguments) {
  DoctorCommand command;
  Syntax syntax("Show what this machine has for zplan, and what is missing for what",
                "zplan doctor [options]",
                "\nExamples:\n  ./zplan doctor\n  ./zplan doctor --nvme-dir /mnt/nvme --json\n");
  syntax.text("--nvme-dir", command.nvme_directory, "DIR",
              "Also try a folder for states on NVMe; what is written there is removed");
  syntax.flag("--json", command.json, "Print JSON (zplan.doctor/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  return command;
}

Command parse_suggest(const Arguments& arguments) {
  SuggestCommand command;
  PlanCommand& question = command.question;
  question.arguments = lasting(arguments);
  std::erase(question.arguments, "--suggest");
  question.threads = all_threads();
  PinOptions pins;
  bool suggest = false;  // taken before; here for the help
  Syntax syntax(
      "Say which few minutes of measuring would most likely change the choice of a plan; nothing "
      "is measured",
      "zplan calibrate --suggest --model M --cluster C [options]",
      "\nExamples:\n"
      "  ./zplan calibrate --suggest --model llama3-70b --cluster dgx-h100x16\n"
      "  ./zplan calibrate --suggest --model gpt3 --cluster dgx-a100x64 --stack megatron2022\n");
  syntax.flag("--suggest", suggest, "Without it: see zplan calibrate --help");
  add_question(syntax, pins, question);
  add_effort(syntax, question);
  syntax.flag("--json", question.json, "Print JSON (zplan.suggestions/1)");
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  require_both(question, "zplan calibrate --suggest");
  pins.finish(question.pins);
  return command;
}

Command parse_calibrate(const Arguments& arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--suggest") != arguments.end())
    return parse_suggest(arguments);
  CalibrateCommand command;
  Syntax syntax(
      "Measure this machine's device and write a profile of its kind of node, for --cluster",
      "zplan calibrate [--device D | --import FILE --base NODE] [-o FILE] [options]",
      "\nMeasured are one device, working alone, and its way to the host; of the CPU also what "
      "the\n"
      "threads of several ranks take from each other. Communication between GPUs is not: that "
      "takes\n"
      "a process for each. What is not measured stays as in the base.\n"
      "\nExamples:\n"
      "  ./zplan calibrate --device cuda -o my-node.json\n"
      "  ./zplan plan --model gpt2 --cluster my-node.json\n"
      "  ./zplan calibrate --import all_reduce.txt --import fio.json --base dgx-h100 -o "
      "mine.json\n");
  std::optional<DeviceChoice> device;
  syntax.choice<std::optional<DeviceChoice>, DeviceChoice>(
      "--device", device, "What is measured; of several GPUs the first [cpu]",
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

std::vector<DescribedOption> question_options() {
  return read_options(std::get<ShowText>(parse_plan({std::string(kDescribe)}, false)).text);
}

// An option of the question that an axis of a sweep gives values to.
struct AxisOption {
  std::string name;  // "tp"
  bool is_switch = false;
};

// Also understood.
constexpr std::pair<std::string_view, std::string_view> kAxisWords[] = {{"batch", "global-batch"},
                                                                        {"sequence", "seq"}};

// Those that pin something, and what is planned for where.
std::vector<AxisOption> axis_options() {
  std::vector<AxisOption> options;
  for (const DescribedOption& option : question_options()) {
    const std::string name = option.name().substr(2);
    constexpr std::string_view kUsual[] = {"model", "cluster", "stack", "global-batch", "seq"};
    const bool is_usual = std::find(std::begin(kUsual), std::end(kUsual), name) != std::end(kUsual);
    const bool pins = option.group == kPinsGroup && !name.starts_with("no-");
    if (is_usual || pins) options.push_back({name, option.type.empty()});
  }
  return options;
}

[[noreturn]] void fail_unknown_axis(const std::string& name,
                                    const std::vector<AxisOption>& options) {
  std::vector<std::string> names;
  for (const auto& [word, option] : kAxisWords) names.emplace_back(word);
  for (const AxisOption& option : options) names.push_back(option.name);
  for (const HardwareQuantity& quantity : hardware_quantities()) names.emplace_back(quantity.name);
  throw_bad_input(fmt::format("--over: unknown axis {}{} (known: {})", in_quotes(name),
                              did_you_mean(name, names), fmt::join(names, ", ")));
}

// What would be typed for one value of an axis.
Arguments axis_arguments(const std::string& name, const std::string& value,
                         const std::vector<AxisOption>& options) {
  const auto* const word = std::find_if(std::begin(kAxisWords), std::end(kAxisWords),
                                        [&](const auto& pair) { return pair.first == name; });
  const std::string wanted(word == std::end(kAxisWords) ? name : word->second);
  const auto option = std::find_if(options.begin(), options.end(),
                                   [&](const AxisOption& o) { return o.name == wanted; });
  if (option == options.end()) {
    if (is_quantity(name)) return {"--set", fmt::format("{}={}", name, value)};
    fail_unknown_axis(name, options);
  }
  if (!option->is_switch) return {"--" + wanted, value};
  if (value != "yes" && value != "no")
    throw_bad_input(fmt::format("--over: {}: expected yes or no, got {}", name, in_quotes(value)));
  if (value == "yes") return {"--" + wanted};
  const std::vector<DescribedOption> all = question_options();
  const bool has_back = std::any_of(all.begin(), all.end(), [&](const DescribedOption& o) {
    return o.name() == "--no-" + wanted;
  });
  return has_back ? Arguments{"--no-" + wanted} : Arguments{};
}

// Of the arguments of a sweep those of each of its questions.
Arguments question_arguments(const Arguments& arguments) {
  Arguments kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--over") ++i;  // and its value
    if (!word.starts_with("--over") && word != "--json" && word != "--csv") kept.push_back(word);
  }
  return kept;
}

void add_questions(SweepCommand& command, const Arguments& arguments) {
  const std::vector<AxisOption> options = axis_options();
  const Arguments common = question_arguments(arguments);
  for (std::vector<std::string>& point : grid_points(command.axes)) {
    Arguments typed = common;
    for (std::size_t axis = 0; axis < point.size(); ++axis)
      for (std::string& word : axis_arguments(command.axes[axis].name, point[axis], options))
        typed.push_back(std::move(word));
    PlanCommand question = std::get<PlanCommand>(parse_plan(typed, false));
    parse_changes(question.changes);
    command.questions.push_back({std::move(point), std::move(question)});
  }
}

Command parse_sweep(const Arguments& arguments) {
  SweepCommand command;
  PlanCommand question;  // read for the help, and for what is wrong with it
  std::vector<std::string> over;
  PinOptions pins;
  Syntax syntax(
      "Find a plan for every point of a grid: nodes, batches, models, pinned choices, hardware",
      "zplan sweep --model M --cluster C --over AXIS=VALUES [--over ..] [options]",
      "\nAn axis is nodes, batch, sequence, model, cluster, stack, an option that pins a choice\n"
      "(tp, zero, micro-batch ..; of a switch yes and no) or a quantity of the hardware\n"
      "(zplan clusters C shows them). Values: 1,2,8 or 1..64, which doubles, or 10..40:10.\n"
      "\nExamples:\n"
      "  ./zplan sweep --model 10B --cluster dgx2 --over nodes=1..4\n"
      "  ./zplan sweep --model gpt2-1.5b --cluster dgx2 --over batch=128..512 --over zero=1..3:1\n"
      "  ./zplan sweep --model llama3-8b --cluster rtx4090-12ssd --over pcie=16..64GB/s --csv\n");
  add_question(syntax, pins, question);
  syntax.texts("--over", over, "AXIS=VALUES",
               "An axis of the grid; repeated, the last varies first");
  add_effort(syntax, question);
  syntax.flag("--csv", command.csv, "Print a line per question, with commas");
  syntax.flag("--json", command.json, "Print JSON (zplan.sweep/1)");
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (over.empty())
    throw_bad_input(
        "expected an axis, as in: zplan sweep --model 10B --cluster dgx2 --over "
        "nodes=1..4");
  if (command.csv && command.json) throw_bad_input("--csv and --json contradict each other");
  for (const std::string& axis : over) command.axes.push_back(parse_axis(axis));
  const auto has = [&](std::string_view name) {
    return std::any_of(command.axes.begin(), command.axes.end(),
                       [&](const GridAxis& axis) { return axis.name == name; });
  };
  if (has("model") && question.model.empty()) question.model = "as the axis says";
  if (has("cluster") && question.cluster.empty()) question.cluster = "as the axis says";
  require_both(question, "zplan sweep --over nodes=1..4");
  add_questions(command, arguments);
  return command;
}

Command parse_what_if(const Arguments& arguments) {
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
  return command;
}

Command parse_sensitivity(const Arguments& arguments) {
  SensitivityCommand command;
  PinOptions pins;
  Syntax syntax(
      "Say what each quantity of the hardware is worth to the step: seconds per GB/s, per us ..",
      "zplan sensitivity PLAN.json [options], or zplan sensitivity --model M --cluster C [options]",
      "\nExamples:\n"
      "  ./zplan sensitivity plan.json\n"
      "  ./zplan sensitivity --model 10B --cluster dgx2 --optimizer nvme --check\n");
  add_source(syntax, pins, command.source);
  syntax.flag("--check", command.check,
              "Also simulate changes of 5 %, beside what the prices predict");
  syntax.flag("--json", command.json, "Print JSON (zplan.sensitivity/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  require_one_source(command.source, "sensitivity");
  return command;
}

Command parse_diff(const Arguments& arguments) {
  DiffCommand command;
  Syntax syntax(
      "Compare two plans: decisions, memory, step, and time operation by operation by role",
      "zplan diff A.json B.json [options]",
      "\nExamples:\n"
      "  ./zplan diff plan.json other.json\n"
      "  ./zplan diff plan.json other.json --cluster workstation --json\n");
  syntax.positional("A.json", command.before, "A plan (zplan plan .. -o A.json)");
  syntax.positional("B.json", command.after, "Another plan");
  syntax.text("-c,--cluster", command.cluster, "C", "Where to, instead of what the plans name");
  syntax.text("--stack", command.stack, "S",
              "Whose software sets the costs: nemo2024 .. or a .json file [own]");
  syntax.share("--headroom", command.headroom, kMostHeadroom, kHeadroomHelp);
  syntax.flag("--json", command.json, "Print JSON (zplan.diff/1)");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!command.after.empty()) return command;
  throw_bad_input("expected two plans, as in: zplan diff plan.json other.json");
}

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
  const std::string name = fmt::format("{}", fmt::join(known, "|"));
  syntax.positional(name, shell, "The shell");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (std::find(known.begin(), known.end(), shell) == known.end())
    throw_bad_input(fmt::format("expected a shell, {}, got {}{}", fmt::join(known, " or "),
                                in_quotes(shell), did_you_mean(shell, known)));
  return ShowText{completion_script(shell, described_commands())};
}

Command parse_schema(const Arguments& arguments) {
  std::string name;
  Syntax syntax("List what --json prints, by its tags, or describe one as a JSON Schema",
                "zplan schema [TAG]",
                "\nExamples:\n"
                "  ./zplan schema\n"
                "  ./zplan schema zplan.sweep/1\n");
  syntax.positional("TAG", name, "Of the answer's member \"schema\", or its word: sweep");
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (!name.empty()) return ShowText{schema_text(name)};
  return ShowText{fmt::format("{}\n", fmt::join(schema_tags(), "\n"))};
}

Command parse_explain(const Arguments& arguments) {
  ExplainCommand command;
  PinOptions pins;
  Syntax syntax("Show what a number of a plan's answer is made of",
                "zplan explain PLAN.json [WHAT], or zplan explain --model M --cluster C [WHAT]",
                "\nWHAT is a key of the answer's JSON; without it, all that can be explained.\n"
                "\nExamples:\n"
                "  ./zplan explain plan.json\n"
                "  ./zplan explain plan.json time.mfu\n"
                "  ./zplan explain --model 10B --cluster dgx2 memory.gpu.peak_bytes\n");
  add_source(syntax, pins, command.source);
  syntax.positional("WHAT", command.what, "time.step_s, memory.gpu.peak_bytes ..");
  syntax.flag("--json", command.json,
              "Print JSON (zplan.explanation/1; without WHAT zplan.explanations/1)");
  if (auto help = read_with_source(syntax, arguments, pins, command.source))
    return std::move(*help);
  PlanSource& source = command.source;
  if (!source.question.model.empty() && command.what.empty())
    command.what = std::exchange(source.plan, "");
  require_one_source(source, "explain");
  return command;
}

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

Command parse_why_not(const Arguments& arguments) {
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
                     "As the answer names it, \"ZeRO-3 gpu+cpu tp\", or words for what its plans "
                     "have: pipeline, tensor, offload, cpu, nvme ..");
  add_question(syntax, pins, question);
  add_effort(syntax, question);
  syntax.flag("--json", question.json, "Print JSON (zplan.why_not/1)");
  pins.add_others(syntax, question.pins);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  require_both(question, "zplan why-not");
  pins.finish(question.pins);
  if (!family.empty()) command.family = parse_family(fmt::format("{}", fmt::join(family, " ")));
  if (family.empty() && pinned_option(beside_batch(question.pins)).empty())
    throw_bad_input(
        "why-not: expected a family or pins to ask about, as in: zplan why-not \"ZeRO-2 gpu\" "
        "--model 10B --cluster dgx2");
  return command;
}

struct Subcommand {
  std::string_view name;
  Command (*parse)(const Arguments&);
};
constexpr Subcommand kSubcommands[] = {
    {"plan", [](const Arguments& arguments) { return parse_plan(arguments, false); }},
    {"simulate", parse_simulate},
    {"memory", parse_memory},
    {"bandwidth", parse_bandwidth},
    {"lower", parse_lower},
    {"run", parse_run},
    {"compare", parse_compare},
    {"validate", parse_validate},
    {"models", parse_models},
    {"clusters", parse_clusters},
    {"doctor", parse_doctor},
    {"calibrate", parse_calibrate},
    {"sweep", parse_sweep},
    {"what-if", parse_what_if},
    {"sensitivity", parse_sensitivity},
    {"diff", parse_diff},
    {"completion", parse_completion},
    {"schema", parse_schema},
    {"max", parse_max},
    {"goodput", parse_goodput},
    {"need", parse_need},
    {"explain", parse_explain},
    {"why-not", parse_why_not},
};

std::vector<DescribedCommand> described_commands() {
  std::vector<DescribedCommand> commands;
  for (const Subcommand& subcommand : kSubcommands) {
    const Command table = subcommand.parse({std::string(kDescribe)});
    commands.push_back(
        {std::string(subcommand.name), read_options(std::get<ShowText>(table).text)});
  }
  return commands;
}

[[noreturn]] void fail_unknown(const std::string& word) {
  std::vector<std::string> names;
  for (const Subcommand& subcommand : kSubcommands) names.emplace_back(subcommand.name);
  throw_bad_input(fmt::format("unknown subcommand {}{} (known: {})", in_quotes(word),
                              did_you_mean(word, names), fmt::join(names, ", ")));
}

}  // namespace

Command parse_arguments(const Arguments& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) {
    const bool version =
        std::find(arguments.begin(), arguments.end(), "--version") != arguments.end();
    if (version) return ShowText{"zplan " ZPLAN_VERSION "\n"};
    return parse_plan(arguments, true);
  }
  if (arguments[0] == "help") {  // "help", "help run"
    Arguments asked{arguments.begin() + 1, arguments.end()};
    asked.emplace_back("--help");
    return parse_arguments(asked);
  }
  for (const Subcommand& subcommand : kSubcommands) {
    if (arguments[0] == subcommand.name) {
      return subcommand.parse({arguments.begin() + 1, arguments.end()});
    }
  }
  fail_unknown(arguments[0]);
}

}  // namespace zplan
