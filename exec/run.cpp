#include "exec/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <tuple>

#include "exec/cpu/cpu_backend.h"
#include "exec/initial_state.h"
#include "exec/rank.h"
#include "exec/serial.h"
#include "exec/threaded.h"
#include "planner/core/error.h"
#include "planner/program/fingerprint.h"
#include "planner/program/kernel_set.h"
#include "planner/program/verify_operands.h"
#include "planner/program/verify_structure.h"

namespace zplan::exec {
namespace {

void check_options(const RunOptions& options) {
  if (options.steps < 0) throw_bad_input("the number of steps must not be negative");
  if (options.threads_per_rank < 1) throw_bad_input("a rank needs at least one thread");
  const bool wants_serial = options.guard || options.schedule_seed != 0;
  if (wants_serial && options.mode != RunMode::kSerial)
    throw_bad_input("guards and drawn schedules need the serial mode");
}

// What keeps every address inside its slab; the rest of verify is not needed to fail cleanly.
void check_job(const Job& job) {
  if (!job.placed) throw_bad_input("only a placed job can be run");
  if (job.dp < 1 || job.pp < 1 || std::ssize(job.classes) != job.pp) {
    throw_bad_input(
        fmt::format("expected {} rank classes, one per stage, got {}", job.pp, job.classes.size()));
  }
  for (const RankClass& c : job.classes) {
    ClassFindings findings(c.stage);
    check_structure(job, c, findings);
    if (findings.empty()) check_operands(job, c, findings);
    if (!findings.empty()) throw_bad_input(findings.lines().front());
  }
}

// The least vocabulary of the job's losses; tokens must lie below it.
std::int64_t vocabulary(const Job& job) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const RankClass& c : job.classes) {
    for (const Node& node : c.program.nodes) {
      if (node.kind == OpKind::kKernel && node.kernel == KernelId::kCrossEntropy)
        least = std::min(least, c.program.attributes[node.attributes][0]);
    }
  }
  return least;
}

void check_data(const Job& job, const DataSource& data) {
  const std::int64_t vocab = vocabulary(job);
  for (const RankClass& c : job.classes) {
    for (const Node& node : c.program.nodes) {
      if (node.kind == OpKind::kKernel && node.kernel == KernelId::kLoadBatch)
        data.check(c.program.operands(node)[0].shape[1] - 1, vocab);
    }
  }
}

std::vector<RankMemory> make_memory(const Job& job, std::uint64_t seed) {
  check_memory_suffices(job);
  std::vector<RankMemory> memory;
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    memory.emplace_back(job, rank);
    initialise_states(job, seed, memory.back());
  }
  return memory;
}

std::vector<Rank> make_ranks(const Job& job, const RunOptions& options,
                             std::vector<RankMemory>& memory) {
  const KernelSet& set = find_kernel_set(job.kernel_set);
  if (!set.runs_on_cpu)
    throw_bad_input(fmt::format("kernel set {} does not run on the CPU", job.kernel_set));
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const Program& program = memory[r].rank_class().program;
    ranks.push_back({.number = static_cast<std::int32_t>(r),
                     .memory = &memory[r],
                     .index = ProgramIndex(program),
                     .backend = std::make_unique<cpu::CpuBackend>(program, set.compute,
                                                                  options.threads_per_rank)});
  }
  return ranks;
}

std::vector<LaneRun> make_lanes(std::vector<Rank>& ranks, const RunOptions& options) {
  std::vector<LaneRun> lanes;
  for (Rank& rank : ranks) {
    for (int l = 0; l < kLaneCount; ++l) {
      const auto lane = static_cast<Lane>(l);
      const std::int64_t nodes = rank.index.lane_nodes(lane);
      if (nodes == 0) continue;
      LaneRun& run = lanes.emplace_back(LaneRun{&rank, lane, Cursor(rank.index, lane), {}, {}});
      run.step_ends.resize(static_cast<std::size_t>(options.steps));
      if (options.record_timeline)
        run.spans.reserve(static_cast<std::size_t>(nodes * options.steps));
    }
  }
  return lanes;
}

std::vector<StepResult> collect_steps(RunState& state) {
  std::vector<StepResult> results;
  TimePoint previous = state.start;
  for (std::int64_t step = 0; step < state.gate.limit(); ++step) {
    TimePoint end = previous;
    for (const LaneRun& lane : state.lanes)
      end = std::max(end, lane.step_ends[static_cast<std::size_t>(step)]);
    const StepReport& report = state.services.report_of(step);
    results.push_back({.loss = report.loss,
                       .gradient_norm = report.gradient_norm,
                       .wall = {std::chrono::duration<double>(end - previous).count()}});
    previous = end;
  }
  return results;
}

Timeline collect_timeline(const RunState& state) {
  Timeline timeline{.source = "exec", .fingerprint = fingerprint(*state.job), .ranks = {}};
  for (const Rank& rank : state.ranks) {
    timeline.ranks.push_back(
        {.stage = rank.memory->stage(), .dp_index = rank.memory->dp_index(), .spans = {}});
  }
  for (const LaneRun& lane : state.lanes) {
    auto& spans = timeline.ranks[static_cast<std::size_t>(lane.rank->number)].spans;
    spans.insert(spans.end(), lane.spans.begin(), lane.spans.end());
  }
  for (RankTimeline& rank : timeline.ranks) {
    std::stable_sort(rank.spans.begin(), rank.spans.end(), [](const Span& a, const Span& b) {
      return std::tie(a.start, a.lane, a.op) < std::tie(b.start, b.lane, b.op);
    });
  }
  return timeline;
}

}  // namespace

RunResult run(const Job& job, const DataSource& data, const RunOptions& options) {
  check_options(options);
  check_job(job);
  check_data(job, data);
  RunResult result;
  result.memory = make_memory(job, options.train.seed);
  RunState state{.job = &job,
                 .options = &options,
                 .services = RunServices(data, options.train, job.pp - 1, options.steps),
                 .gate = StepGate(options.steps, options.interrupted),
                 .ranks = make_ranks(job, options, result.memory),
                 .lanes = {},
                 .start = {}};
  state.lanes = make_lanes(state.ranks, options);
  if (options.mode == RunMode::kThreaded) {
    run_threaded(state);
  } else {
    // In a thread of its own, as prepare_thread changes settings of the thread.
    std::async(std::launch::async, [&] { run_serial(state); }).get();
  }
  result.steps = collect_steps(state);
  result.interrupted = state.gate.was_interrupted();
  if (options.record_timeline) result.timeline = collect_timeline(state);
  return result;
}

}  // namespace zplan::exec
