#include "planner/cli/run/processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "exec/comm/launch_environment.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/program/text/fingerprint.h"

namespace zplan {
namespace {

std::optional<exec::LaunchEnvironment> environment() {
  return exec::launch_environment(exec::process_environment());
}

// Returns how long a process that is not lost may say nothing. An operation whose partner does not
// come within the deadline asks once more who is lost before it names the partner, which may itself
// wait for another process.
Seconds longest_silence(Seconds deadline) {
  constexpr double kMostSilence = 30;  // [assumed] of a process that beats once a second
  return {std::min(deadline.value, kMostSilence)};
}

// Of strangers, however many come, by however many ways.
std::function<void(const std::string&)> complain_once() {
  return [told = std::make_shared<std::once_flag>()](const std::string& address) {
    std::call_once(*told, [&] {
      complain(
          fmt::format("a connection from {} does not know this job's token; it and others "
                      "like it are turned away",
                      address));
    });
  };
}

}  // namespace

int local_rank() {
  const auto at = environment();
  return at ? at->local_rank : 0;
}

void check_process_options(const RunCommand& command) {
  if (!environment()) return;
  const auto refuse = [](const char* option) {
    throw_bad_input(
        fmt::format("{} needs all ranks in one process; start zplan without a launcher", option));
  };
  if (command.test_mode) refuse("--test-mode");
}

namespace {

// Processes validate at the same steps, as much.
std::string validation_words(const RunCommand& command, const exec::DataSource* data) {
  if (data == nullptr) return "none";
  return fmt::format("every {}, {} batches, {}", command.validate_every, command.validate_batches,
                     data->identity());
}

std::string save_words(const RunCommand& command) {
  if (command.save.empty()) return "none";
  return fmt::format("{}, every {}, keep {}", command.save, command.save_every, command.keep);
}

std::string value_words(const TrainConfig& t) {
  return fmt::format(
      "learning rate {} to {}, warm-up {}, decay {}, betas {} and {}, epsilon {}, weight decay {}, "
      "clip norm {}, loss scale {} and {}, dropout {}",
      t.learning_rate, t.min_learning_rate, t.warmup_steps, t.decay_steps, t.beta1, t.beta2,
      t.epsilon, t.weight_decay, t.clip_norm, t.initial_loss_scale, t.loss_scale_interval,
      t.dropout);
}

std::string or_none(const std::string& path) { return path.empty() ? "none" : path; }

bool is_recorded(const RunCommand& command) {
  return !command.trace.empty() || !command.timeline.empty();
}

}  // namespace

std::shared_ptr<exec::Rendezvous> meet_processes(const RunCommand& command,
                                                 const PlannedJob& planned,
                                                 const TrainingData& trained) {
  const auto at = environment();
  if (!at) return nullptr;
  if (planned.job.world() != at->world) {
    throw_bad_input(fmt::format("{} has {}, but {} processes were started", command.plan,
                                count_of(planned.job.world(), "rank"), at->world));
  }
  const Seconds deadline{static_cast<double>(command.comm_timeout_seconds)};
  return std::make_shared<exec::Rendezvous>(exec::RendezvousOptions{
      .at = *at,
      .alike = {{"version", ZPLAN_VERSION},
                {"plan", fingerprint(planned.job)},
                {"steps", fmt::to_string(command.steps)},
                {"data", trained.data.identity()},
                {"seed", fmt::to_string(trained.values.seed)},
                {"training values", value_words(trained.values)},
                {"validation", validation_words(command, trained.validation)},
                {"checkpoints", save_words(command)},
                {"resume", command.resume ? "yes" : "no"},
                {"start", or_none(command.resume_from)},
                {"weights", or_none(command.weights)},
                {"export", or_none(command.export_to)},
                {"recording", is_recorded(command) ? "yes" : "no"},
                {"check", command.check ? "yes" : "no"}},
      .start_deadline = deadline,
      .silence_deadline = longest_silence(deadline),
      .on_waiting =
          [](const std::string& absent) { complain(fmt::format("waits for {}", absent)); },
      .token = exec::token_source(*at, exec::process_environment()),
      .on_stranger = complain_once()});
}

}  // namespace zplan
