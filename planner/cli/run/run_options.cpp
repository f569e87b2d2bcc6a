#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "hwprofiles/cluster_spelling.h"
#include "planner/cli/frame/question_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::int64_t kMaxTimeout = 86'400;  // a day, in seconds
constexpr std::int64_t kMaxRunSteps = 1'000'000;

// Options that need each other.
void check_checkpoints(const RunCommand& command) {
  if (command.save.empty() && command.save_every > 0)
    throw_bad_input("--every: expected --save DIR, where checkpoints go");
  if (command.save.empty() && command.keep > 0)
    throw_bad_input("--keep: expected --save DIR, where checkpoints go");
  if (command.save.empty() && command.resume)
    throw_bad_input("--resume: expected --save DIR, or --resume-from DIR in its place");
  if (command.resume && !command.resume_from.empty())
    throw_bad_input("--resume-from: expected either it or --resume");
  const bool goes_on = command.resume || !command.resume_from.empty();
  if (goes_on && command.check)
    throw_bad_input("--check: expected a training from its first step, not --resume");
}

void check_weights(const RunCommand& command) {
  if (command.steps == 0 && command.export_to.empty() && command.validate.empty())
    throw_bad_input("--steps: expected at least 1, or --export DIR or --validate FILE with 0");
  if (command.steps == 0 && command.check)
    throw_bad_input("--check: expected at least 1 of --steps, got 0");
}

void check_validation(const RunCommand& command) {
  if (command.validate.empty() && command.validate_every > 0)
    throw_bad_input("--validate-every: expected --validate FILE, the data");
  if (command.validate.empty() && command.validate_batches > 0)
    throw_bad_input("--validate-batches: expected --validate FILE, the data");
  const std::int64_t times =
      1 + (command.validate_every > 0 ? command.steps / command.validate_every : 0);
  if (command.validate_batches > kMaxRunSteps / times)
    throw_bad_input(
        fmt::format("--validate-batches: expected up to {} in all, got {} validations of {}",
                    kMaxRunSteps, times, command.validate_batches));
}

// What it trains on.
void add_data(Syntax& syntax, RunCommand& command) {
  syntax.text("--data", command.data, "FILE",
              "What to train on: tokens of llm.c (.bin), or a token per byte [a sample]");
  syntax.text("--validate", command.validate, "FILE",
              "Show the loss on this data, which is not trained on, at the end");
  syntax.integer("--validate-every", command.validate_every, 1, kMaxRunSteps,
                 "And after so many steps");
  syntax.integer("--validate-batches", command.validate_batches, 1, kMaxRunSteps,
                 "Global batches of it, the same each time [4]");
  syntax.text("--train", command.train, "FILE", "Learning rate etc., JSON (zplan.train/1)");
  syntax.integer("--seed", command.seed, 0, std::numeric_limits<std::int64_t>::max(),
                 "Of initial values and data order [0, or as in --train]");
}

// What it runs on, and with what.
void add_machine(Syntax& syntax, RunCommand& command) {
  syntax.choice<std::string, std::string>("--dtype", command.dtype,
                                          "Number format of the whole run [the plan's]",
                                          {{"f32", "f32"}, {"f64", "f64"}});
  syntax.integer("--threads-per-rank", command.threads_per_rank, 1, kMaxThreads,
                 "Threads inside the kernels of a rank [1]");
  syntax.choice<BackendChoice, BackendChoice>(
      "--backend", command.backend, "What it must run on [as the kernel set says]",
      {{"cpu", BackendChoice::kCpu}, {"cuda", BackendChoice::kCuda}});
  syntax.integer("--comm-timeout", command.comm_timeout_seconds, 1, kMaxTimeout,
                 "Seconds to wait for another process, at most 30 for a silent one [600]");
  syntax.text("--nvme-dir", command.nvme_directory, "DIR",
              "Folder on the drive that holds what the plan keeps on NVMe");
  syntax.choice<exec::IoMethod, exec::IoMethod>(
      "--io", command.io, "How it is read and written [auto: uring where it works]",
      {{"auto", exec::IoMethod::kAuto},
       {"uring", exec::IoMethod::kUring},
       {"posix", exec::IoMethod::kPosix}});
}

void add_kept(Syntax& syntax, RunCommand& command) {
  syntax.text("--save", command.save, "DIR",
              "Keep checkpoints there: at the end, after Ctrl-C, and as --every says");
  syntax.integer("--every", command.save_every, 1, kMaxRunSteps, "Steps from one to the next");
  syntax.integer("--keep", command.keep, 1, kMaxRunSteps, "So many of them, the newest [all]");
  syntax.flag("--resume", command.resume,
              "Go on from the newest good one, to --steps in all; without one, begin");
  syntax.text("--resume-from", command.resume_from, "DIR",
              "The same from other checkpoints, or from one: DIR/step-000020");
  syntax.text("--weights", command.weights, "DIR",
              "Begin with these: config.json and model.safetensors of Hugging Face");
  syntax.text("--export", command.export_to, "DIR",
              "Write such a folder at the end, in the type of the master weights");
}

void add_records(Syntax& syntax, RunCommand& command) {
  syntax.text("--log", command.log, "FILE",
              "Write a line of JSON for each step and each validation");
  syntax.flag("--ignore-capacity", command.ignore_capacity,
              "Train with a plan that does not fit its hardware, too");
  syntax.flag("--test-mode", command.test_mode,
              "One operation at a time, each checked for touching only its buffers");
  syntax.text("--trace", command.trace, "FILE",
              "Write one step for a trace viewer (Chrome trace JSON); .gz: compressed");
  syntax.flag("--trace-all", command.trace_all,
              "In the trace, every step, rank and micro-batch; may be gigabytes");
  syntax.text("--timeline", command.timeline, "FILE", "Write the timeline (zplan.timeline/1)");
  syntax.flag("--json", command.json, "Print JSON (zplan.run/1)");
}

// Words that name hardware ask what sweep answers.
std::vector<std::string> with_clusters_refused(const std::vector<std::string>& arguments) {
  std::vector<std::string> models, clusters;
  for (const std::string& word : arguments) {
    if (word.starts_with('-') || looks_like_path(word)) return arguments;
    (means_cluster(word) ? clusters : models).push_back(shell_word(word));
  }
  if (clusters.empty()) return arguments;
  const std::string model = models.empty() ? "MODEL" : joined(models, " ");
  throw_bad_input(fmt::format(
      "expected two timelines, got {}; hardware is compared by: zplan sweep {} --over cluster={}",
      in_quotes(joined(arguments, " ")), model, joined(clusters, ",")));
}

}  // namespace

Command parse_run(const std::vector<std::string>& arguments) {
  RunCommand command;
  Syntax syntax(
      "Train with a plan on this machine: ranks are threads, or processes that a launcher starts",
      "zplan run PLAN.json [options]",
      "\nExamples:\n"
      "  ./zplan plan --model tiny-gpt --cluster workstation -o plan.json\n"
      "  ./zplan run plan.json --steps 10 --check\n"
      "  ./zplan run plan.json --steps 100 --data book.txt --dtype f64\n"
      "  ./zplan run plan.json --steps 1000 --save kept --every 100 --keep 2 --resume\n"
      "  ./zplan run plan.json --weights my-llama --export my-llama-trained\n"
      "  torchrun --nproc-per-node 8 --no-python ./zplan run plan.json\n"
      "  srun ./zplan run plan.json;  mpirun -n 8 ./zplan run plan.json\n"
      "\nAn update whose gradients are not finite is skipped, and the loss scale is halved.\n"
      "After 8 in a row with a scale of 1, or without one, the run ends with exit code 5;\n"
      "the last checkpoint whose parameters are finite stays.\n");
  syntax.positional("PLAN.json", command.plan, "The plan; its kernel set says what it runs on");
  syntax.integer("--steps", command.steps, 0, kMaxRunSteps,
                 "Optimizer steps; 0: --validate and --export alone [10]");
  syntax.flag("--check", command.check, "Compare with a run of one rank with nothing offloaded");
  add_data(syntax, command);
  add_machine(syntax, command);
  add_kept(syntax, command);
  add_records(syntax, command);
  if (auto help = syntax.read(arguments)) return ShowText{std::move(*help)};
  if (command.plan.empty()) fail_without_plan("run");
  check_checkpoints(command);
  check_weights(command);
  check_validation(command);
  return command;
}

Command parse_compare(const std::vector<std::string>& arguments) {
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
  if (auto help = syntax.read(with_clusters_refused(arguments))) return ShowText{std::move(*help)};
  if (!command.executed.empty()) return command;
  throw_bad_input("expected two timelines, as in: zplan compare sim.json exec.json");
}

}  // namespace zplan
