#include "exec/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/memory/state_access.h"
#include "planner/core/error.h"
#include "planner/program/instances/carried.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/text/fingerprint.h"
#include "planner/program/verify/verify.h"
#include "tests/unit/exec/mini_job.h"

namespace zplan::exec {
namespace {

using testing::mini_data;
using testing::mini_job;
using testing::mini_run;
using testing::MiniOptions;

std::vector<double> losses(const RunResult& result) {
  std::vector<double> values;
  for (const StepResult& step : result.steps) values.push_back(step.loss);
  return values;
}

// Equal bit by bit: all parameters, losses and norms.
void expect_equal(const Job& job_a, const RunResult& a, const Job& job_b, const RunResult& b) {
  EXPECT_EQ(losses(a), losses(b));
  const auto difference = largest_difference(job_a, a.memory, job_b, b.memory);
  EXPECT_FALSE(difference.has_value()) << difference->tensor << " element " << difference->element
                                       << ": " << difference->first << ", " << difference->second;
}

double largest_gap(const Job& job_a, const RunResult& a, const Job& job_b, const RunResult& b) {
  const auto difference = largest_difference(job_a, a.memory, job_b, b.memory);
  return difference ? std::abs(difference->first - difference->second) : 0.0;
}

const std::vector<MiniOptions>& all_layouts() {
  static const std::vector<MiniOptions> kLayouts{
      {.dp = 1},
      {.dp = 2},
      {.dp = 4, .shard_optimizer = true},
      {.dp = 1, .pp = 2},
      {.dp = 2, .pp = 2, .shard_optimizer = true},
      {.dp = 2, .pp = 2, .pipeline_first = true},
      {.dp = 1, .on_nvme = true},
      {.dp = 2, .pp = 2, .shard_optimizer = true, .on_nvme = true},
  };
  return kLayouts;
}

TEST(Run, TheHandBuiltJobsVerify) {
  for (const MiniOptions& layout : all_layouts())
    EXPECT_THAT(verify(mini_job(layout)), ::testing::IsEmpty());
}

TEST(Run, TrainsTheModel) {
  const Job job = mini_job({.dp = 2, .shard_optimizer = true});
  const RunResult result = run(job, mini_data(), mini_run(RunMode::kThreaded, 30));
  ASSERT_EQ(result.steps.size(), 30u);
  EXPECT_NEAR(result.steps.front().loss, std::log(256.0), 0.3);
  EXPECT_LT(result.steps.back().loss, result.steps.front().loss - 0.5);
  for (const StepResult& step : result.steps) {
    EXPECT_GT(step.gradient_norm, 0);
    EXPECT_GT(step.wall.value, 0);
  }
}

TEST(Run, ThreadsAndOneThreadGiveTheSameBits) {
  for (const char* kernel_set : {"cpu.f32", "cpu.f64"}) {
    for (MiniOptions layout : all_layouts()) {
      layout.kernel_set = kernel_set;
      const Job job = mini_job(layout);
      const RunResult threaded = run(job, mini_data(), mini_run(RunMode::kThreaded));
      const RunResult serial = run(job, mini_data(), mini_run(RunMode::kSerial));
      expect_equal(job, threaded, job, serial);
      EXPECT_FALSE(replica_mismatch(job, threaded.memory).has_value());
    }
  }
}

TEST(Run, EveryScheduleGivesTheSameBits) {
  for (const MiniOptions& layout : all_layouts()) {
    const Job job = mini_job(layout);
    const RunResult fixed = run(job, mini_data(), mini_run(RunMode::kSerial, 2));
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      RunOptions options = mini_run(RunMode::kSerial, 2);
      options.schedule_seed = seed;
      options.guard = seed == 1;
      expect_equal(job, fixed, job, run(job, mini_data(), options));
    }
  }
}

TEST(Run, EveryLayoutTrainsTheSameModel) {
  const Job reference = mini_job({});
  const RunResult expected = run(reference, mini_data(), mini_run(RunMode::kThreaded));
  for (const MiniOptions& layout : all_layouts()) {
    const Job job = mini_job(layout);
    const RunResult result = run(job, mini_data(), mini_run(RunMode::kThreaded));
    EXPECT_LT(largest_gap(reference, expected, job, result), 1e-12);
    for (std::size_t i = 0; i < expected.steps.size(); ++i) {
      EXPECT_NEAR(result.steps[i].loss, expected.steps[i].loss, 1e-12);
      EXPECT_NEAR(result.steps[i].gradient_norm, expected.steps[i].gradient_norm, 1e-12);
    }
  }
}

TEST(Run, ShardingTheOptimizerChangesNoBit) {
  const Job full = mini_job({.dp = 2}), sharded = mini_job({.dp = 2, .shard_optimizer = true});
  // Without clipping: the norm is summed in another order.
  RunOptions options = mini_run(RunMode::kThreaded);
  options.train.clip_norm = 0;
  const RunResult a = run(full, mini_data(), options), b = run(sharded, mini_data(), options);
  EXPECT_FALSE(largest_difference(full, a.memory, sharded, b.memory).has_value());
  EXPECT_FALSE(largest_difference(full, a.memory, sharded, b.memory, State::kMoment2).has_value());
}

TEST(Run, StatesOnNvmeChangeNoBit) {
  for (bool shard : {false, true}) {
    const Job gpu = mini_job({.dp = 2, .shard_optimizer = shard});
    const Job nvme = mini_job({.dp = 2, .shard_optimizer = shard, .on_nvme = true});
    const RunResult a = run(gpu, mini_data(), mini_run(RunMode::kThreaded, 5));
    for (IoMethod method : {IoMethod::kAuto, IoMethod::kPosix}) {
      RunOptions options = mini_run(RunMode::kThreaded, 5);
      options.storage.method = method;
      const RunResult b = run(nvme, mini_data(), options);
      expect_equal(gpu, a, nvme, b);
      for (State state : kStates)
        EXPECT_FALSE(largest_difference(gpu, a.memory, nvme, b.memory, state).has_value());
    }
  }
}

TEST(Run, OpenMpThreadsChangeNoBit) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not know libgomp's synchronisation";
#endif
  const Job job = mini_job({.dp = 2, .micro_batch = 2});
  RunOptions options = mini_run(RunMode::kThreaded);
  const RunResult one = run(job, mini_data(), options);
  options.threads_per_rank = 2;
  expect_equal(job, one, job, run(job, mini_data(), options));
}

TEST(Run, TheRankOrderChangesNoBit) {
  const Job a = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  const Job b = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true, .pipeline_first = true});
  expect_equal(a, run(a, mini_data(), mini_run(RunMode::kThreaded)), b,
               run(b, mini_data(), mini_run(RunMode::kThreaded)));
}

// The order in which one lane of a stage issues its operations, by the Program alone.
std::vector<OpId> program_order(const Program& program, Lane lane, int steps) {
  const ProgramIndex index(program);
  std::vector<OpId> ids;
  Cursor cursor(index, lane);
  for (std::int64_t i = 0; i < index.lane_nodes(lane) * steps; ++i, cursor.advance())
    ids.push_back(op_id(program.nodes[cursor->node].role, cursor->env));
  return ids;
}

TEST(Run, LanesIssueWhatTheProgramSaysInItsOrder) {
  const Job job = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  for (RunMode mode : {RunMode::kThreaded, RunMode::kSerial}) {
    RunOptions options = mini_run(mode);
    options.record_timeline = true;
    const RunResult result = run(job, mini_data(), options);
    EXPECT_EQ(result.timeline.source, "exec");
    EXPECT_EQ(result.timeline.fingerprint, fingerprint(job));
    ASSERT_EQ(std::ssize(result.timeline.ranks), job.world());
    for (const RankTimeline& rank : result.timeline.ranks) {
      std::map<Lane, std::vector<OpId>> issued;
      for (const Span& span : rank.spans) {
        issued[span.lane].push_back(span.op);
        EXPECT_LE(span.ready, span.start);
        EXPECT_LE(span.start, span.end);
        EXPECT_LE(0, span.ready.value);
      }
      const Program& program = job.classes[static_cast<std::size_t>(rank.stage)].program;
      for (const auto& [lane, ids] : issued)
        EXPECT_EQ(ids, program_order(program, lane, options.steps)) << name(lane);
    }
  }
}

TEST(Run, TheMeanStepHoldsTheMeanOfAllStepsButTheFirst) {
  const Job job = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  RunOptions options = mini_run(RunMode::kThreaded, 4);
  options.record_timeline = true;
  const RunResult result = run(job, mini_data(), options);
  EXPECT_EQ(result.mean_step.fingerprint, fingerprint(job));
  ASSERT_EQ(result.mean_step.ranks.size(), result.timeline.ranks.size());
  for (std::size_t r = 0; r < result.timeline.ranks.size(); ++r) {
    std::map<std::pair<Lane, OpId>, SimTime> sums;
    for (const Span& span : result.timeline.ranks[r].spans)
      if (span.step > 0) sums[{span.lane, span.op}] += span.end - span.start;
    std::map<Lane, SimTime> ends;
    EXPECT_EQ(result.mean_step.ranks[r].spans.size(), sums.size());
    for (const Span& span : result.mean_step.ranks[r].spans) {
      const SimTime sum = sums.at({span.lane, span.op});
      EXPECT_NEAR((span.end - span.start).value, static_cast<double>(sum.value) / 3, 1);
      EXPECT_EQ(span.start, ends[span.lane]) << "without pauses";
      ends[span.lane] = span.end;
    }
  }
}

TEST(Run, AMeanStepNeedsMoreThanOneStep) {
  const Job job = mini_job({});
  const RunResult result = run(job, mini_data(), mini_run(RunMode::kThreaded, 1));
  EXPECT_TRUE(result.mean_step.ranks.empty());
}

TEST(Run, TheObserverSeesEveryInstanceAndItsOperands) {
  const Job job = mini_job({.dp = 2});
  RunOptions options = mini_run(RunMode::kThreaded, 1);
  std::mutex mutex;
  std::map<std::int32_t, int> seen;
  options.observer = [&](const NodeEvent& event) {
    const std::lock_guard lock(mutex);
    ++seen[event.rank];
    const Node& node = event.program->nodes[event.node];
    EXPECT_EQ(event.operands.size(), event.program->operands(node).size());
    if (node.kind == OpKind::kKernel && node.kernel == KernelId::kStepScalars) {
      EXPECT_EQ(event.operands[0].as<double>()[0], options.train.learning_rate);
    }
  };
  run(job, mini_data(), options);
  const int expected = static_cast<int>(ProgramIndex(job.classes[0].program).all_nodes());
  EXPECT_EQ(seen, (std::map<std::int32_t, int>{{0, expected}, {1, expected}}));
}

TEST(Run, TellsEachStepAsItCompletesInOrder) {
  const Job job = mini_job({.dp = 2, .pp = 2});
  for (RunMode mode : {RunMode::kThreaded, RunMode::kSerial}) {
    RunOptions options = mini_run(mode, 20);
    std::vector<double> told;
    options.step_done = [&](std::int64_t step, const StepResult& result) {
      EXPECT_EQ(step, std::ssize(told));
      told.push_back(result.loss);
    };
    EXPECT_EQ(losses(run(job, mini_data(), options)), told);
    EXPECT_EQ(told.size(), 20u);
  }
}

TEST(Run, AnInterruptionEndsAfterAWholeStepOnAllRanks) {
  const Job job = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  for (RunMode mode : {RunMode::kThreaded, RunMode::kSerial}) {
    RunOptions options = mini_run(mode, 1000);
    std::atomic<int> polls = 0;
    options.interruption.between_steps = [&] { return ++polls > 20; };
    const RunResult result = run(job, mini_data(), options);
    EXPECT_TRUE(result.interrupted);
    ASSERT_GT(result.steps.size(), 0u);
    ASSERT_LT(result.steps.size(), 21u);
    const int steps = static_cast<int>(result.steps.size());
    expect_equal(job, result, job, run(job, mini_data(), mini_run(mode, steps)));
  }
}

TEST(Run, AnInterruptionWithinAStepLeavesTheStatesAsTheyWereAheadOfIt) {
  const Job job = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  const RunResult expected = run(job, mini_data(), mini_run(RunMode::kThreaded, 2));
  for (RunMode mode : {RunMode::kThreaded, RunMode::kSerial}) {
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      const auto at = [&](const NodeEvent& event) { return testing::is_backward(event, rank); };
      const RunResult result = testing::run_interrupted(job, mini_run(mode, 1000), at);
      EXPECT_TRUE(result.interrupted);
      EXPECT_TRUE(result.gave_up_step);
      ASSERT_EQ(result.steps.size(), 2u);
      expect_equal(job, result, job, expected);
    }
  }
}

TEST(Run, AStepThatHasChangedAStateIsEnded) {
  const Job job = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  const RunResult expected = run(job, mini_data(), mini_run(RunMode::kThreaded, 3));
  const auto changes_state = [&](const NodeEvent& event) -> bool {
    return state_changes(job.class_of(event.rank))[event.node];
  };
  for (RunMode mode : {RunMode::kThreaded, RunMode::kSerial}) {
    const RunResult result = testing::run_interrupted(job, mini_run(mode, 1000), changes_state);
    EXPECT_TRUE(result.interrupted);
    ASSERT_EQ(result.steps.size(), 3u);
    expect_equal(job, result, job, expected);
  }
}

TEST(Run, AFailureOnOneRankEndsAllOfThem) {
  const Job job = mini_job({.dp = 2, .pp = 2, .shard_optimizer = true});
  RunOptions options = mini_run(RunMode::kThreaded, 1000);
  options.observer = [](const NodeEvent& event) {
    if (event.rank == 1 && event.step == 2) throw_bad_input("disk on fire");
  };
  try {
    run(job, mini_data(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "disk on fire");
  }
}

TEST(Run, AStuckJobSaysWhoWaitsForWhat) {
  Job job = mini_job({.pp = 2});
  Program& program = job.classes[1].program;  // the last stage never sends its gradients
  for (Node& node : program.nodes) {
    if (node.kind != OpKind::kSend) continue;
    node.kind = OpKind::kMark;
    node.operands_end = node.operands_begin;
  }
  try {
    run(job, mini_data(), mini_run(RunMode::kSerial));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckFailed);
    EXPECT_THAT(
        error.what(),
        ::testing::HasSubstr("rank 0: backward.boundary.receive[m0,l0] waits for its partners"));
  }
}

void expect_refused(const Job& job, const RunOptions& options, const std::string& why) {
  try {
    run(job, mini_data(), options);
    FAIL() << "expected: " << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
  }
}

TEST(Run, SaysWhyItCannotStart) {
  const RunOptions options = mini_run(RunMode::kThreaded);
  expect_refused(testing::unplaced_mini_job({}), options, "only a placed job can be run");

  Job job = mini_job({});
  job.kernel_set = "cuda.sm90.bf16";
  expect_refused(job, options, "does not run on the CPU");

  job = mini_job({});
  job.kernel_set = "cpu.f32";
  expect_refused(job, options, "of a f32 kernel set does not take operand");

  job = mini_job({});
  Program& program = job.classes[0].program;
  const Node& head = program.nodes[testing::find_kernel(program, KernelId::kHeadForward)];
  program.views[head.operands_begin + 3].shape = {1};
  expect_refused(job, options, "head_forward needs");

  job = mini_job({});
  job.classes[0].placement.slab[0] = Bytes{0};
  expect_refused(job, options, "stage 0");

  job = mini_job({.on_nvme = true});
  RunOptions nowhere = options;
  nowhere.storage.directory.clear();
  expect_refused(job, nowhere, "on NVMe: expected a directory for its files");
  for (View& view : job.classes[0].program.views) view.offset += Bytes{8};
  expect_refused(job, options, "stage 0");

  RunOptions guarded = options;
  guarded.guard = true;
  expect_refused(mini_job({}), guarded, "need the serial mode");
}

TEST(Run, NoStepsLeaveTheInitialState) {
  const Job job = mini_job({.dp = 2});
  const RunResult result = run(job, mini_data(), mini_run(RunMode::kThreaded, 0));
  EXPECT_TRUE(result.steps.empty());
  EXPECT_FALSE(result.interrupted);
  const std::vector<double> wte = read_tensor(job, result.memory, {0, 0, 0});
  EXPECT_NE(wte[0], 0.0);
}

}  // namespace
}  // namespace zplan::exec
