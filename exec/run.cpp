#include "exec/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>

#include "exec/checkpoint/export_folder.h"
#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/loader.h"
#include "exec/checkpoint/saver.h"
#include "exec/checkpoint/weight_source.h"
#include "exec/comm/rendezvous.h"
#include "exec/cpu/cpu_device.h"
#include "exec/memory/initial_state.h"
#include "exec/offload/io_engine.h"
#include "exec/offload/slab_file.h"
#include "exec/schedule/process_timeline.h"
#include "exec/schedule/queues.h"
#include "exec/schedule/rank.h"
#include "exec/schedule/serial.h"
#include "exec/schedule/threaded.h"
#include "planner/core/error.h"
#include "planner/program/instances/carried.h"
#include "planner/program/instances/validation.h"
#include "planner/program/job/meetings.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/text/fingerprint.h"
#include "planner/program/verify/operands.h"
#include "planner/program/verify/structure.h"

namespace zplan::exec {
namespace {

void check_options(const RunOptions& options) {
  if (options.steps < 0) throw_bad_input("the number of steps must not be negative");
  if (options.threads_per_rank < 1) throw_bad_input("a rank needs at least one thread");
  const bool wants_serial = options.guard || options.schedule_seed != 0;
  if (wants_serial && options.mode != RunMode::kSerial)
    throw_bad_input("guards and drawn schedules need the serial mode");
  if (options.rendezvous && options.mode == RunMode::kSerial)
    throw_bad_input("ranks in processes of their own do not run in the serial mode");
  if (options.guard && !options.save.folder.empty())
    throw_bad_input("a guarded run cannot be saved: its memory is closed between operations");
}

bool is_on_nvme(const Program& program, const View& view) {
  return program.buffers[view.buffer].tier == Tier::kNvme;
}

// Only copies reach NVMe, and they move whole blocks.
void check_transfers(const RankClass& rank_class) {
  const Program& program = rank_class.program;
  const auto is_aligned = [](Bytes bytes) { return bytes.value % kIoAlignment.value == 0; };
  for (const Node& node : program.nodes) {
    const auto views = program.operands(node);
    const bool reaches =
        std::any_of(views.begin(), views.end(), [&](auto& v) { return is_on_nvme(program, v); });
    if (!reaches) continue;
    for (const View& view : views) {
      const Buffer& buffer = program.buffers[view.buffer];
      const bool fits = is_aligned(view.offset) && is_aligned(buffer.slot_size) &&
                        is_aligned(rank_class.placement.offset[view.buffer]) &&
                        std::all_of(view.strides.begin(), view.strides.end(),
                                    [&](std::int64_t stride) { return is_aligned({stride}); });
      const bool is_transfer = node.kind == OpKind::kCopy && buffer.tier != Tier::kGpu;
      if (fits && is_transfer) continue;
      throw_bad_input(fmt::format(
          "{}: expected a copy of whole blocks of {} bytes between NVMe and host, got a view of {}",
          name(node.role), kIoAlignment.value, buffer.name));
    }
  }
}

// What keeps every address inside its slab; the rest of verify is not needed to fail cleanly.
void check_job(const Job& job) {
  if (!job.placed) throw_bad_input("only a placed job can be run");
  if (const auto fault = mesh_fault(job.mesh)) throw_bad_input("the mesh of the job has " + *fault);
  if (std::ssize(job.classes) != job.stages())
    throw_bad_input(fmt::format("expected {} rank classes, one per stage, got {}", job.stages(),
                                job.classes.size()));
  for (const RankClass& c : job.classes) {
    ClassFindings findings(c.stage);
    check_structure(job, c, findings);
    if (findings.empty()) check_operands(job, c, findings);
    if (!findings.empty()) throw_bad_input(findings.lines().front());
    check_transfers(c);
  }
}

void check_graphs(const Job& job, const RunOptions& options, const Device& device) {
  const bool shares = !options.rendezvous && job.world() > 1;
  const bool launches = job.launch == LaunchMode::kGraph && options.mode == RunMode::kThreaded;
  if (shares && launches && !device.ranks_may_share_graphs())
    throw_bad_input(
        "ranks that share a device cannot launch graphs on it: take the launch mode stream, or a "
        "process and a device for each rank");
}

// The least vocabulary of the job's losses; tokens must lie below it.
std::int64_t vocabulary(const Job& job) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const RankClass& c : job.classes) {
    for (const Node& node : c.program.nodes) {
      const bool has_vocabulary = node.kernel == KernelId::kCrossEntropy ||
                                  node.kernel == KernelId::kCrossEntropyStatistics;
      if (node.kind == OpKind::kKernel && has_vocabulary)
        least = std::min(least, c.program.attributes_of(node)[0].base);
    }
  }
  return least;
}

// That the tokens which a rank loads lie within their sequences and targets.
void check_loaded(const Job& job, std::int32_t rank, const Node& node) {
  const Program& program = job.class_of(rank).program;
  const AttributeValues values = resolve(program.attributes_of(node), job.mesh.point(rank));
  const std::int64_t begin = values[3], ahead = values[6];
  const std::int64_t tokens = program.operands(node)[0].shape[1];
  if (ahead < 0 || ahead > job.sequence)
    throw_bad_input(fmt::format("{}: expected tokens up to {} further on, got {}", name(node.role),
                                job.sequence, ahead));
  if (begin >= 0 && begin + tokens <= job.sequence + 1) return;
  throw_bad_input(fmt::format("{}: expected some of {} tokens of a sequence, got {} from {} on",
                              name(node.role), job.sequence + 1, tokens, begin));
}

void check_data(const Job& job, const DataSource& data, const DataSource* validation) {
  bool loads = false;
  for (std::int32_t rank = 0; rank < job.world(); ++rank)
    for (const Node& node : job.class_of(rank).program.nodes)
      if (node.kind == OpKind::kKernel && node.kernel == KernelId::kLoadBatch) {
        check_loaded(job, rank, node);
        loads = true;
      }
  if (validation != nullptr)
    if (const auto why_not = no_validation(job))
      throw_bad_input("the plan cannot be validated between two steps: " + *why_not);
  if (!loads) return;
  data.check(job.sequence, vocabulary(job));
  if (validation != nullptr) validation->check(job.sequence, vocabulary(job));
}

void check(const Job& job, const DataSource& data, const RunOptions& options,
           const Device& device) {
  check_options(options);
  check_job(job);
  if (job.launch == LaunchMode::kGraph && options.record_timeline)
    throw_bad_input(
        "operations of a graph have no times of their own: a timeline needs the launch mode "
        "stream");
  check_data(job, data, options.validation.data.get());
  device.check(find_kernel_set(job.kernel_set));
  check_graphs(job, options, device);
  if (options.guard && !device.host_reaches(Tier::kGpu))
    throw_bad_input("a guard needs a device whose memory the CPU reaches");
}

bool uses_nvme(const Job& job) {
  return std::any_of(job.classes.begin(), job.classes.end(), [](const RankClass& c) {
    return c.placement.slab[static_cast<std::size_t>(Tier::kNvme)].value > 0;
  });
}

// That this process runs.
std::vector<std::int32_t> own_ranks(const Job& job, const RunOptions& options) {
  if (!options.rendezvous) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(job.world()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  ZPLAN_ASSERT(options.rendezvous->world() == job.world());
  return {options.rendezvous->rank()};
}

// All memory and storage is had before the first state is drawn.
std::vector<RankMemory> make_memory(const Job& job, const RunOptions& options,
                                    const std::vector<std::int32_t>& ranks,
                                    const std::shared_ptr<Device>& device) {
  const StorageOptions& storage = options.storage;
  if (uses_nvme(job) && !storage.directory.empty()) remove_leftovers(storage.directory);
  std::vector<RankMemory> memory;
  for (const std::int32_t rank : ranks) memory.emplace_back(job, rank, storage, device);
  return memory;
}

// Locks the host slabs, which NVMe reads into and writes from, and says what is done.
StorageReport prepare_storage(const StorageOptions& options, std::vector<RankMemory>& memory) {
  StorageReport report;
  report.directory = options.directory;
  report.direct = report.pinned = true;
  const std::unique_ptr<IoEngine> engine = make_io_engine(options);
  report.method = engine->method();
  report.method_reason = engine->reason();
  for (RankMemory& m : memory) {
    if (m.file() == nullptr) continue;
    ++report.files;
    report.bytes += m.file()->size();
    report.direct = report.direct && m.file()->is_direct();
    if (const auto why_not = m.slab(Tier::kCpu).pin()) {
      report.pinned = false;
      report.pinned_reason = *why_not;
    }
  }
  return report;
}

// Of this process, ahead of its memory: libraries are loaded and kernels timed while the device is
// empty. Ranks choose as those before them did, and as in the checkpoint that training goes on
// from.
struct Backends {
  std::vector<std::unique_ptr<Backend>> all;
  std::vector<KernelChoice> choices;
  KnownChoices known;
};

Backends make_backends(const Job& job, const RunOptions& options,
                       const std::vector<std::int32_t>& ranks, Device& device) {
  Backends made;
  KnownChoices known = options.choices;
  known.merge(saved_choices(options.resume, ranks));
  std::set<std::string> described;
  for (const std::int32_t rank : ranks) {
    made.all.push_back(device.make_backend(job, rank, options.threads_per_rank, known));
    for (KernelChoice& choice : made.all.back()->choices()) {
      if (!choice.key.empty()) made.known[choice.key] = known[choice.key] = choice.value;
      const std::string& once = choice.key.empty() ? choice.kernel : choice.key;
      if (described.insert(once).second) made.choices.push_back(std::move(choice));
    }
  }
  return made;
}

std::vector<Rank> make_ranks(const RunOptions& options, Backends& backends,
                             std::vector<RankMemory>& memory) {
  std::map<const RankClass*, std::vector<bool>> changes;
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const std::int32_t number = memory[r].rank();
    const RankClass& own = memory[r].rank_class();
    if (!changes.contains(&own)) changes[&own] = state_changes(own);
    const bool has_file = memory[r].file() != nullptr;
    ranks.push_back(
        {.number = number,
         .memory = &memory[r],
         .index = ProgramIndex(own.program),
         .makes_loss = options.validation.data ? loss_nodes(own.program) : std::vector<bool>{},
         .changes_state = changes[&own],
         .backend = std::move(backends.all[r]),
         .reader = has_file ? make_io_engine(options.storage) : nullptr,
         .writer = has_file ? make_io_engine(options.storage) : nullptr});
    if (options.observer && options.mode == RunMode::kThreaded && ranks.back().backend->queues())
      throw_bad_input("an observer needs the serial mode: the device runs ahead of it");
  }
  return ranks;
}

StepAgreement agreement(const RunOptions& options) {
  Rendezvous* const rendezvous = options.rendezvous.get();
  if (rendezvous == nullptr) return {};
  return {.enter = [rendezvous](std::int64_t step,
                                bool interrupted) { return rendezvous->enter(step, interrupted); },
          .change = [rendezvous](std::int64_t step) { return rendezvous->change(step); },
          .give_up = [rendezvous] { rendezvous->give_up(); }};
}

std::vector<LaneRun> make_lanes(std::vector<Rank>& ranks, const RunOptions& options,
                                std::int64_t steps) {
  std::vector<LaneRun> lanes;
  for (Rank& rank : ranks) {
    for (int l = 0; l < kLaneCount; ++l) {
      const auto lane = static_cast<Lane>(l);
      const std::int64_t nodes = rank.index.lane_nodes(lane);
      if (nodes == 0) continue;
      LaneRun& run =
          lanes.emplace_back(LaneRun{&rank, lane, Cursor(rank.index, lane), nodes, {}, {}});
      run.busy.resize(static_cast<std::size_t>(nodes));
      if (options.record_timeline) run.spans.reserve(static_cast<std::size_t>(nodes * steps));
    }
  }
  return lanes;
}

Timeline empty_timeline(const RunState& state) {
  Timeline timeline{.source = "exec", .fingerprint = fingerprint(*state.job), .ranks = {}};
  for (const Rank& rank : state.ranks) {
    timeline.ranks.push_back(
        {.stage = state.job->stage_of(rank.number), .rank = rank.number, .spans = {}});
  }
  return timeline;
}

// One step in which each operation takes its mean over all steps but the first, one after the other
// on each lane. Empty where there is no such step, or the device alone knows the times.
Timeline collect_mean_step(const RunState& state) {
  constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
  const std::int64_t steps = std::ssize(state.log.results()) - 1;
  if (steps < 1 || state.ranks.front().backend->queues() != nullptr) return {};
  Timeline timeline = empty_timeline(state);
  for (const LaneRun& lane : state.lanes) {
    auto& spans = timeline.ranks[static_cast<std::size_t>(lane.rank - state.ranks.data())].spans;
    Cursor cursor(lane.rank->index, lane.lane);
    SimTime now{0};
    for (const LaneRun::Busy& busy : lane.busy) {
      const Instance& at = *cursor;
      const SimTime end = now + SimTime{busy.ns * kPicosecondsPerNanosecond / busy.times};
      const OpId op = op_id(lane.rank->program(), lane.rank->node(at), at.env);
      spans.push_back(
          {.op = op, .step = 0, .lane = lane.lane, .ready = now, .start = now, .end = end});
      now = end;
      cursor.advance();
    }
  }
  return timeline;
}

Timeline collect_timeline(const RunState& state) {
  Timeline timeline = empty_timeline(state);
  for (const LaneRun& lane : state.lanes) {
    auto& spans = timeline.ranks[static_cast<std::size_t>(lane.rank - state.ranks.data())].spans;
    std::ranges::copy_if(lane.spans, std::back_inserter(spans), [&](const Span& span) {
      return span.step < std::ssize(state.log.results());
    });
  }
  for (RankTimeline& rank : timeline.ranks) sort_spans(rank);
  return timeline;
}

// In a thread of its own: whoever ran a kernel by itself has told its thread not to fork.
void draw_states(const Job& job, const RunOptions& options, std::vector<RankMemory>& memory) {
  std::async(std::launch::async, [&] {
    if (options.weights) return load_weights(job, *options.weights, memory);
    for (RankMemory& m : memory) initialise_states(job, options.train.seed, m);
  }).get();
}

// The states that training begins or goes on with.
ResumePoint begin_states(const Job& job, const RunOptions& options,
                         std::vector<RankMemory>& memory) {
  const auto say = [&](const std::string& line) {
    if (options.say) options.say(line);
  };
  ResumePoint begin = resume_states(job, options.resume, memory, options.rendezvous.get(), say);
  if (begin.path.empty()) {
    begin.seed = options.train.seed;
    draw_states(job, options, memory);
  }
  if (options.resumed) options.resumed(begin);
  return begin;
}

// Of the process of rank 0. All others go on when it has the lock.
std::unique_ptr<FolderLock> lock_folder(const RunOptions& options) {
  if (options.save.folder.empty()) return nullptr;
  Rendezvous* const rendezvous = options.rendezvous.get();
  std::unique_ptr<FolderLock> lock;
  if (rendezvous == nullptr || rendezvous->rank() == 0)
    lock = std::make_unique<FolderLock>(options.save.folder);
  if (rendezvous != nullptr) rendezvous->exchange("");
  return lock;
}

// What runs before this one have left and is not to be kept would take the room of what comes.
void prune_old(const RunOptions& options, const ResumePoint& begin, const FolderLock* lock) {
  const SaveOptions& save = options.save;
  if (lock == nullptr || save.keep == 0) return;
  if (begin.path == path_in(save.folder, checkpoint_name(begin.step)))
    prune_checkpoints(save.folder, begin.step, save.keep);
}

// Of the process of rank 0.
std::unique_ptr<ExportFolder> export_folder(const RunOptions& options) {
  if (!options.exported) return nullptr;
  Rendezvous* const rendezvous = options.rendezvous.get();
  std::unique_ptr<ExportFolder> folder;
  if (rendezvous == nullptr || rendezvous->rank() == 0)
    folder = std::make_unique<ExportFolder>(options.exported->folder);
  return folder;
}

std::unique_ptr<Saver> make_saver(const Job& job, const RunOptions& options,
                                  const std::vector<RankMemory>& memory,
                                  const KnownChoices& choices, std::uint64_t seed) {
  if (options.save.folder.empty()) return nullptr;
  Header base;
  base.seed = seed;
  base.world = job.world();
  base.fingerprint = fingerprint(job);
  base.plan = options.save.plan;
  const auto say = [&options](const std::string& line) {
    if (options.say) options.say(line);
  };
  return std::make_unique<Saver>(job, options.save, memory, std::move(base), choices, say,
                                 options.comm_deadline);
}

StepSequence step_sequence(const RunOptions& options, const ResumePoint& begin) {
  const std::int64_t steps = std::max<std::int64_t>(0, options.steps - begin.step);
  const bool validates = options.validation.data != nullptr;
  return {steps,
          {begin.step, begin.samples, begin.same_job, begin.validated},
          validates ? options.validation.times : ValidationTimes{}};
}

Pulse::Listener training_pulse(const RunState& state) {
  if (!state.options->pulse) return nullptr;
  return [&](double steps) { state.options->pulse(state.services.steps().trained(steps)); };
}

std::int64_t operations_per_step(const RunState& state) {
  std::int64_t operations = 0;
  for (const LaneRun& lane : state.lanes) operations += lane.nodes;
  return std::max<std::int64_t>(1, operations);
}

// What the states are after so many steps of this run that train.
void save(const RunState& state, Saver& saver, std::int64_t trained) {
  const StartPoint& start = state.services.start();
  saver.save(start.step + trained, start.sample + trained * state.job->global_batch);
}

// As due, and ahead of what validates the last step.
BorderAction saving(const RunState& state, Saver& saver) {
  const StepSequence& steps = state.services.steps();
  return {.is_at =
              [&](std::int64_t step) {
                const std::int64_t trained = steps.trained_before(step);
                const bool is_last = step < steps.size() && trained == steps.training_steps();
                return steps.follows_training(step) &&
                       (is_last || saver.is_due(steps.start().step + trained));
              },
          .act = [&](std::int64_t step) { save(state, saver, steps.trained_before(step)); }};
}

// Whether the states that are there, after so many steps of this run that train, are validated.
bool are_validated(const RunState& state, std::int64_t trained) {
  const std::vector<ValidationResult>& all = state.log.validations();
  return !all.empty() && all.back().step == state.services.start().step + trained;
}

SaveReport save_end(const RunState& state, const ResumePoint& begin, Saver& saver) {
  const std::int64_t trained = std::ssize(state.log.results());
  const std::int64_t step = begin.step + trained;
  if (trained > 0) save(state, saver, trained);
  saver.finish();
  const std::string own = path_in(saver.report().folder, checkpoint_name(step));
  const bool is_kept = trained > 0 ? !saver.report().last_failed : begin.path == own;
  if (is_kept && are_validated(state, trained)) saver.mark_validated(step);
  return saver.report();
}

void collect(const RunState& state, RunResult& result) {
  result.steps = state.log.results();
  result.validations = state.log.validations();
  result.has_losses = std::any_of(result.memory.begin(), result.memory.end(),
                                  [&](auto& m) { return m.rank() == reporting_rank(*state.job); });
  result.mean_step = collect_mean_step(state);
  if (!state.options->record_timeline) return;
  result.timeline = collect_timeline(state);
  for (const KernelChoice& choice : result.choices)
    result.timeline.kernels[choice.operation] = choice.kernel;
  if (Rendezvous* const rendezvous = state.options->rendezvous.get())
    result.timeline =
        gather_timeline(*rendezvous, reporting_rank(*state.job), result.timeline, state.start);
}

// Returns when the ranks are through with their steps, or throws.
void run_ranks(RunState& state) {
  if (state.options->mode == RunMode::kThreaded) return run_threaded(state);
  // In a thread of its own, as prepare_thread changes settings of the thread.
  std::async(std::launch::async, [&] { run_serial(state); }).get();
}

// After a failure queues may stand at flags and partners that nobody will bring, while others still
// write flags of other ranks: all come to their end before the first backend goes. What they
// compute until then no longer matters.
void end_queues(RunState& state) noexcept {
  constexpr std::chrono::milliseconds kPause{1};
  const auto for_each_queues = [&](const auto& action) {
    for (const Rank& rank : state.ranks)
      if (Queues* queues = rank.backend->queues()) action(*queues);
  };
  for_each_queues([](Queues& queues) { queues.abandon(); });
  bool are_idle = false;
  while (!are_idle) {
    if (state.queued_comm) state.queued_comm->abort();
    for_each_queues([](Queues& queues) { queues.open_flags(); });
    std::this_thread::sleep_for(kPause);
    are_idle = true;
    for_each_queues([&](Queues& queues) { are_idle = are_idle && queues.is_idle(); });
  }
}

}  // namespace

RunResult run(const Job& job, const DataSource& data, const RunOptions& options) {
  const std::shared_ptr<Device> device =
      options.device ? options.device : std::make_shared<cpu::CpuDevice>();
  check(job, data, options, *device);
  const std::vector<std::int32_t> ranks = own_ranks(job, options);
  check_memory_suffices(job, ranks, *device);
  Backends backends = make_backends(job, options, ranks, *device);
  RunResult result;
  result.choices = backends.choices;
  const std::unique_ptr<FolderLock> lock = lock_folder(options);
  const std::unique_ptr<ExportFolder> written = export_folder(options);
  result.memory = make_memory(job, options, ranks, device);
  if (uses_nvme(job)) result.storage = prepare_storage(options.storage, result.memory);
  result.begin = begin_states(job, options, result.memory);
  prune_old(options, result.begin, lock.get());
  const std::unique_ptr<Saver> saver =
      make_saver(job, options, result.memory, backends.known, result.begin.seed);
  TrainConfig train = options.train;
  train.seed = result.begin.seed;
  RunState state{
      .job = &job,
      .options = &options,
      .services = RunServices({&data, options.validation.data.get()}, job.sequence, train,
                              reporting_rank(job), step_sequence(options, result.begin)),
      .gate = StepGate(state.services.steps().size(), options.interruption, agreement(options)),
      .log = StepLog(state.services, options.step_done, options.validated,
                     [&state](std::int64_t step) { return state.gate.end(step); }),
      .queued_comm = nullptr,
      .ranks = make_ranks(options, backends, result.memory),
      .lanes = {},
      .start = {},
      .border = {},
      .pulse = Pulse(training_pulse(state))};
  state.lanes = make_lanes(state.ranks, options, state.services.steps().training_steps());
  if (options.prepared) options.prepared(result.choices);
  state.pulse.begin(operations_per_step(state));
  if (saver) state.border = saving(state, *saver);
  try {
    run_ranks(state);
  } catch (...) {
    end_queues(state);
    throw;
  }
  if (saver) result.saves = save_end(state, result.begin, *saver);
  result.interrupted = state.gate.was_interrupted();
  result.gave_up_step = state.gate.gave_up() && !state.services.validates(state.gate.limit());
  const bool is_trained =
      std::ssize(state.log.results()) == state.services.steps().training_steps();
  if (options.exported && is_trained)
    result.exported = write_weights(job, *options.exported, result.memory, written.get(),
                                    options.rendezvous.get());
  for (RankMemory& m : result.memory)
    if (m.file() != nullptr) m.file()->remove_name();
  collect(state, result);
  return result;
}

}  // namespace zplan::exec
