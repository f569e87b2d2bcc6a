#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "exec/checkpoint/folder.h"
#include "exec/data_source.h"
#include "exec/host_kernels.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/planned_file.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/cli/predict/trace_file.h"
#include "planner/cli/run/embedded_sample.h"
#include "planner/cli/run/live_line.h"
#include "planner/cli/run/processes.h"
#include "planner/cli/run/run_report.h"
#include "planner/cli/run/thread_waiting.h"
#include "planner/cli/run/training.h"
#include "planner/cli/run/weights.h"
#include "planner/program/job/meetings.h"

namespace zplan {
namespace {

exec::DataSource open_data(const RunCommand& command) {
  if (!command.data.empty()) return exec::DataSource::from_file(command.data);
  const EmbeddedFile& sample = embedded_sample()[0];
  return exec::DataSource({sample.text.begin(), sample.text.end()}, std::string(sample.name));
}

// Of data that is not trained on.
exec::ValidationOptions open_validation(const RunCommand& command) {
  constexpr std::int64_t kBatches = 4;
  if (command.validate.empty()) return {};
  return {std::make_shared<const exec::DataSource>(exec::DataSource::from_file(command.validate)),
          {.every = command.validate_every,
           .batches = command.validate_batches > 0 ? command.validate_batches : kBatches}};
}

exec::RunOptions run_options(const RunCommand& command) {
  exec::RunOptions options;
  options.steps = command.steps;
  if (!command.train.empty()) options.train = load_train_config(command.train);
  if (command.seed) options.train.seed = *command.seed;
  options.mode = command.test_mode ? exec::RunMode::kSerial : exec::RunMode::kThreaded;
  options.guard = command.test_mode;
  options.threads_per_rank = command.threads_per_rank;
  options.storage.directory = command.nvme_directory;
  options.storage.method = command.io;
  options.interruption = {.between_steps = InterruptGuard::interrupted,
                          .within_step = InterruptGuard::interrupted};
  options.comm_deadline = std::chrono::seconds(command.comm_timeout_seconds);
  options.say = [](const std::string& line) { complain(line); };
  return options;
}

// Checkpoints of two runs in one folder would take each other's place.
void check_unused(const RunCommand& command) {
  const std::filesystem::path folder = exec::path_in(command.save, ""),
                              from = exec::path_in(command.resume_from, "");
  const bool goes_on =
      command.resume || from == folder || from.parent_path().parent_path() / "" == folder;
  std::error_code error;
  if (goes_on || !std::filesystem::is_directory(folder, error)) return;
  const std::vector<std::int64_t> steps = exec::checkpoint_steps(command.save);
  if (steps.empty()) return;
  throw_bad_input(
      fmt::format("{}: has checkpoints of a run, up to step {}: expected --resume, which goes on "
                  "from there, or another folder",
                  command.save, steps.back()));
}

// What the training alone does, not the runs that it is checked against.
void keep_states(const RunCommand& command, const PlannedJob& planned, exec::RunOptions& options) {
  options.resume = {.path = command.resume ? command.save : command.resume_from,
                    .expected = !command.resume};
  options.resumed = [&](const exec::ResumePoint& point) {
    const bool tells = !options.rendezvous || options.rendezvous->rank() == 0;
    if (!tells) return;
    if (point.path.empty() && command.resume)
      complain(
          fmt::format("{} holds no checkpoint: training begins at its first step", command.save));
    if (point.path.empty()) return;
    if (!point.same_job)
      complain(fmt::format("the plan has changed since {} was saved: its states are cut anew",
                           point.path));
    if (!command.weights.empty())
      complain(fmt::format("--weights has no effect: training goes on from {}", point.path));
    if (command.seed && *command.seed != point.seed)
      complain(fmt::format("--seed has no effect: training goes on with that of {}, {}", point.path,
                           point.seed));
  };
  if (command.save.empty()) return;
  check_unused(command);
  options.save = {.folder = command.save,
                  .every = command.save_every,
                  .keep = command.keep,
                  .plan = plan_text(planned.plan, PlanOrigin{planned.fingerprint, "", ""},
                                    exec::path_in(command.save, "plan.json")),
                  .io = command.io,
                  .fault = {}};
}

// Whether the losses come to this process; of those of a job only one shows how far it is.
bool has_losses(const Job& job, const exec::RunOptions& options) {
  return !options.rendezvous || options.rendezvous->rank() == reporting_rank(job);
}

// Runs a job and shows how far it is; the listeners of the options hear of its steps, too.
exec::RunResult run_shown(const Job& job, const exec::DataSource& data, exec::RunOptions options,
                          std::string_view title, const std::optional<StepLimit>& limit) {
  if (!has_losses(job, options)) return exec::run(job, data, options);
  LiveLine line(title, options.steps, options.validation.data != nullptr, job, limit);
  options.resumed = [&, resumed = options.resumed](const exec::ResumePoint& point) {
    line.begin(point.step);
    if (resumed) resumed(point);
  };
  options.step_done = [&, done = options.step_done](std::int64_t step,
                                                    const exec::StepResult& result) {
    if (done) done(step, result);
    line.end_step(step, result);
  };
  options.validated = [&, validated = options.validated](const exec::ValidationResult& result) {
    if (validated) validated(result);
    line.validated(result);
  };
  options.pulse = [&](double steps) { line.within(steps); };
  return exec::run(job, data, options);
}

std::optional<Seconds> median_step(const std::vector<exec::StepResult>& steps) {
  if (steps.empty()) return std::nullopt;
  std::vector<double> walls;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) {
    walls.push_back(steps[i].wall.value);
  }
  const auto middle = walls.begin() + static_cast<std::ptrdiff_t>(walls.size() / 2);
  std::nth_element(walls.begin(), middle, walls.end());
  return Seconds{*middle};
}

Cluster planned_cluster(const RunCommand& command, const PlannedJob& planned) {
  Cluster cluster = load_cluster(planned.plan.hardware);
  cluster.threads_per_rank = command.threads_per_rank;
  return cluster;
}

// Nothing where the plan's hardware cannot be had, or cannot run it: add_prediction() says why.
std::optional<StepLimit> known_limit(const RunCommand& command, const PlannedJob& planned) {
  try {
    return step_limit(planned.job, planned_cluster(command, planned));
  } catch (const Error&) {
    return std::nullopt;
  }
}

void add_prediction(const RunCommand& command, const PlannedJob& planned, RunReport& report) {
  try {
    const Cluster cluster = planned_cluster(command, planned);
    const bool splits = !report.mean_step.ranks.empty();
    sim::SimOptions options;
    options.record_timeline = splits;
    const TimePrediction prediction =
        predict_time(planned, cluster, find_stack_use("", "").evidence, options);
    report.predicted = prediction.sim.period;
    if (splits)
      report.split = compare(prediction.sim.timeline, report.mean_step, JoinBy::kOperation);
  } catch (const Error& error) {
    report.no_prediction = error.what();
  }
}

// Whether the processes of a run all go on, or its one process does.
bool all_go_on(const exec::RunOptions& options, bool goes_on) {
  if (!options.rendezvous) return goes_on;
  const std::vector<std::string> stops = options.rendezvous->exchange(goes_on ? "" : "stop");
  return std::all_of(stops.begin(), stops.end(), [](const std::string& s) { return s.empty(); });
}

// Trains as many steps as it takes to the first update, up to those of the command: a delayed one
// comes a step later, and gradients that overflow are skipped.
exec::RunResult run_first_update(const PlannedJob& planned, const exec::DataSource& data,
                                 exec::RunOptions options) {
  const int most = options.steps;
  options.steps = planned.plan.updates_late() ? 2 : 1;
  exec::RunResult result = exec::run(planned.job, data, options);
  const auto is_updated = [&] { return result.interrupted || !result.steps.back().skipped; };
  // The process that has the losses knows whether a step was skipped.
  while (!all_go_on(options, is_updated()) && options.steps < most) {
    ++options.steps;
    result = exec::run(planned.job, data, options);
  }
  return result;
}

// The reference is run by the process that has the losses; the others wait for it.
exec::RunOptions alone(exec::RunOptions options) {
  options.rendezvous = nullptr;
  return options;
}

// Gradients of the first update; false when interrupted. Before the training itself, so that no
// more than two runs are in memory at a time.
bool check_first_update(const PlannedJob& planned, const PlannedJob& reference,
                        const exec::DataSource& data, const exec::RunOptions& options,
                        RunReport& report) {
  const exec::RunResult first = run_first_update(planned, data, options);
  if (first.interrupted) return false;
  const FinishedRun run{&planned.job, &planned.model, &first, options.rendezvous.get()};
  if (!has_losses(planned.job, options)) {
    if (!all_go_on(options, true)) return false;
    if (has_first_gradients(reference.job)) send_tensors(run, exec::State::kMoment1);
    return true;
  }
  const exec::RunResult expected = run_first_update(reference, data, alone(options));
  if (!all_go_on(options, !expected.interrupted)) return false;
  report.check = compare_gradients(run, {&reference.job, &reference.model, &expected});
  return true;
}

// Losses and parameters; false when interrupted.
bool check_training(const FinishedRun& run, const PlannedJob& reference,
                    const exec::DataSource& data, const exec::RunOptions& options,
                    RunReport& report) {
  if (!has_losses(*run.job, options)) {
    if (!all_go_on(options, true)) return false;
    send_tensors(run, exec::State::kMaster);
    return true;
  }
  const exec::RunResult expected =
      run_shown(reference.job, data, alone(options), "reference", std::nullopt);
  if (!all_go_on(options, !expected.interrupted)) return false;
  const std::vector<CheckRow> losses =
      compare_losses(run, {&reference.job, &reference.model, &expected});
  report.check.insert(report.check.begin(), losses.begin(), losses.end());
  report.check.push_back(compare_parameters(run, {&reference.job, &reference.model, &expected},
                                            {options.train.seed, options.weights.get()}));
  report.checked = true;
  return true;
}

// Before anything is done. A timeline holds every operation in memory.
void check_timelines(const RunCommand& command) {
  constexpr int kMostSteps = 1000;
  check_outputs({command.trace, command.timeline, command.log},
                {command.plan, command.data, command.validate, command.train});
  check_trace(command.trace, command.trace_all);
  for (const std::string& path : {command.trace, command.timeline}) {
    if (path.empty()) continue;
    if (command.steps > kMostSteps) {
      throw_bad_input(
          fmt::format("--trace and --timeline keep all operations of up to {} --steps, not of {}",
                      kMostSteps, command.steps));
    }
  }
}

void write_timelines(const RunCommand& command, const Job& job, const Timeline& timeline) {
  if (!command.trace.empty()) write_trace(command.trace, job, timeline, command.trace_all);
  if (!command.timeline.empty()) write_file(command.timeline, to_json(timeline));
}

// A plan that will be slow says so before it begins.
void complain_of_slow(const std::vector<exec::KernelChoice>& choices) {
  for (const exec::KernelChoice& choice : choices)
    if (!choice.slow.empty())
      complain(fmt::format("SLOW: {}: {} ({})", choice.operation, choice.kernel, choice.slow));
}

// Trains, compares with the reference unless that is null, and writes the timelines.
RunReport train(const RunCommand& command, const PlannedJob& planned, const PlannedJob* reference,
                const exec::DataSource& data, const exec::ValidationOptions& validation,
                exec::RunOptions options) {
  const InterruptGuard guard;
  RunReport report;
  report.data = {data.name(), data.tokens()};
  report.steps_wanted = command.steps;
  const WeightFolders folders = weight_folders(command, planned);
  options.weights = folders.begun;
  if (reference != nullptr && !check_first_update(planned, *reference, data, options, report)) {
    report.interrupted = true;
    return report;
  }
  options.record_timeline = !command.trace.empty() || !command.timeline.empty();
  options.prepared = complain_of_slow;
  exec::ProcessMemory at_end;
  const std::optional<StepLimit> limit = known_limit(command, planned);
  StepFile log(has_losses(planned.job, options) ? command.log : "", planned.job, limit);
  exec::RunOptions kept = options;
  keep_states(command, planned, kept);
  kept.exported = folders.exported;
  kept.validation = validation;
  kept.step_done = [&](std::int64_t step, const exec::StepResult& done) {
    if (step + 1 == command.steps) at_end = exec::process_memory();
    log.add(step, done);
  };
  kept.validated = [&](const exec::ValidationResult& validation) { log.add(validation); };
  exec::RunResult result = run_shown(planned.job, data, kept, "training", limit);
  const bool in_one = !options.rendezvous && options.device->host_reaches(Tier::kGpu);
  if (in_one && at_end.resident.value > 0) {
    const Bytes other = validation.data ? validation.data->size() : Bytes{0};
    const ProcessLoad load{.text = data.size() + other,
                           .threads_per_rank = command.threads_per_rank,
                           .recorded_steps = options.record_timeline ? command.steps : 0,
                           .copy = result.saves ? result.saves->staging : Bytes{0}};
    report.memory = RunMemory{placed_on_host(planned.job), at_end, process_use(planned.job, load)};
  }
  options.record_timeline = false;
  options.prepared = nullptr;
  report.steps = result.steps;
  report.validations = result.validations;
  report.mean_step = result.mean_step;
  report.storage = result.storage;
  report.choices = result.choices;
  report.begin = result.begin;
  report.saves = result.saves;
  report.exported = result.exported;
  if (kept.weights && report.begin.path.empty()) report.weights = command.weights;
  report.interrupted = result.interrupted;
  report.gave_up_step = result.gave_up_step;
  report.measured = median_step(result.steps);
  if (reference != nullptr && !report.interrupted) {
    const FinishedRun run{&planned.job, &planned.model, &result, options.rendezvous.get()};
    report.interrupted = !check_training(run, *reference, data, options, report);
  }
  report.timeline = std::move(result.timeline);
  return report;
}

// The other processes learn how this one ended.
RunReport train_together(const RunCommand& command, const PlannedJob& planned,
                         const PlannedJob* reference, const exec::DataSource& data,
                         const exec::ValidationOptions& validation,
                         const exec::RunOptions& options) {
  if (!options.rendezvous) return train(command, planned, reference, data, validation, options);
  try {
    RunReport report = train(command, planned, reference, data, validation, options);
    options.rendezvous->finish();
    return report;
  } catch (const std::exception& error) {
    options.rendezvous->abort(error.what());
    throw;
  }
}

// Where an interrupted training goes on.
std::string kept_text(const RunReport& report) {
  if (report.steps.empty() && !report.begin.path.empty())
    return fmt::format("{} is as far", report.begin.path);
  if (!report.saves || report.saves->saved.empty() || report.saves->last_failed)
    return "no checkpoint was written";
  const std::string name = exec::checkpoint_name(report.saves->saved.back().step);
  return fmt::format("kept in {}, --resume goes on", exec::path_in(report.saves->folder, name));
}

// Returns true if each step skipped its update and a lower loss scale does not help. A training
// whose loss is no number has none in its parameters either, or none that fit its data.
bool updates_nothing(const RunReport& report) {
  const auto& steps = report.steps;
  if (steps.empty() || !std::ranges::all_of(steps, &exec::StepResult::skipped)) return false;
  return steps.back().loss_scale <= exec::kLeastLossScale || !std::isfinite(steps.back().loss);
}

ExitCode conclude(const RunReport& report) {
  if (report.interrupted) {
    const bool is_trained = report.last_step() >= report.steps_wanted;
    complain(fmt::format(
        "interrupted {}after {} of {}{}; {}", is_trained ? "in the validation " : "",
        count_of(report.last_step(), "step"), grouped(report.steps_wanted),
        report.gave_up_step && !is_trained ? ", the next one is given up" : "", kept_text(report)));
    return ExitCode::kInterrupted;
  }
  if (report.saves && report.saves->last_failed) {
    complain("the end of the training is not kept: its checkpoint could not be written");
    return report.saves->failure;
  }
  if (updates_nothing(report)) {
    complain(fmt::format("no step updated the parameters: the gradients of all {} were not finite",
                         grouped(std::ssize(report.steps))));
    return ExitCode::kCheckFailed;
  }
  if (report.agrees()) return ExitCode::kOk;
  const bool only_zeros = std::any_of(report.check.begin(), report.check.end(),
                                      [](const CheckRow& row) { return row.only_zeros; });
  if (only_zeros) {
    complain("there was nothing to compare: no step updated the parameters (try more --steps)");
    return ExitCode::kCheckFailed;
  }
  complain(
      "the run and its one-rank reference differ by more than rounding explains (--dtype f64 tells "
      "a bug from rounding)");
  return ExitCode::kCheckFailed;
}

// The tiers of the plan's hardware are slabs here: a plan that does not fit them is no plan for it.
// The reference is not meant for that hardware.
std::optional<Infeasible> misfit(const RunCommand& command, const ReadPlan& read,
                                 const PlannedJob& planned) {
  const Cluster cluster = cluster_of(read);
  if (command.ignore_capacity) return std::nullopt;
  return predict_memory(planned, cluster).infeasible;
}

bool has_nvme(const Job& job) {
  const auto is_there = [](const Buffer& buffer) { return buffer.tier == Tier::kNvme; };
  return std::any_of(job.classes.begin(), job.classes.end(), [&](const RankClass& c) {
    return std::any_of(c.program.buffers.begin(), c.program.buffers.end(), is_there);
  });
}

// What a plan keeps on NVMe needs a place.
void check_storage(const RunCommand& command, const Job& job) {
  const bool uses_nvme = has_nvme(job);
  if (uses_nvme && command.nvme_directory.empty()) {
    throw_bad_input(
        fmt::format("{} keeps something on NVMe: give --nvme-dir DIR, a folder on the drive to use",
                    command.plan));
  }
  if (!uses_nvme && !command.nvme_directory.empty()) {
    complain(fmt::format("--nvme-dir has no effect: {} keeps nothing on NVMe", command.plan));
  }
}

// The training is done and kept: what cannot be written of its results is told of, and no more.
ExitCode write_results(const RunCommand& command, const PlannedJob& planned,
                       const RunReport& report) {
  try {
    write_answer(run_sheet(planned, report), command.json, [&] {
      if (!report.interrupted) write_timelines(command, planned.job, report.timeline);
    });
  } catch (const Error& error) {
    complain(error.what());
    return error.code();
  }
  return ExitCode::kOk;
}

}  // namespace

ExitCode execute(const RunCommand& command) {
  if (command.threads_per_rank > 1) wait_briefly();
  check_timelines(command);
  check_process_options(command);
  const ReadPlan read = runnable_plan(command);
  const PlannedJob planned = planned_job(read);
  check_storage(command, planned.job);
  if (const auto why = misfit(command, read, planned)) {
    complain(fmt::format("{} does not fit on {}: {} (--ignore-capacity trains anyway)",
                         command.plan, planned.plan.hardware, full_reason(*why)));
    return ExitCode::kInfeasible;
  }
  const exec::DataSource data = open_data(command);
  const exec::ValidationOptions validation = open_validation(command);
  std::optional<PlannedJob> reference;
  if (command.check) reference = build_job(reference_plan(planned.plan), planned.model);
  exec::RunOptions options = run_options(command);
  options.device = open_device(planned.plan, local_rank());
  options.rendezvous =
      meet_processes(command, planned, {data, validation.data.get(), options.train});
  RunReport report = train_together(command, planned, reference ? &*reference : nullptr, data,
                                    validation, options);
  if (!has_losses(planned.job, options)) return conclude(report);
  add_prediction(command, planned, report);
  const ExitCode written = write_results(command, planned, report);
  const ExitCode end = conclude(report);
  return end == ExitCode::kOk ? written : end;
}

}  // namespace zplan
