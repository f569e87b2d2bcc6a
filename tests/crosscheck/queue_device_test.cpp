// A device with queues: what it launches and records; failures and interruptions end its runs. That
// it runs every plan to the bits of threads, cover/cover_test.cpp shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "exec/memory/state_access.h"
#include "planner/core/error.h"
#include "planner/core/random.h"
#include "tests/support/plan_space.h"
#include "tests/support/queue_device.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::expect_same_bits;
using testing_support::train;
using testing_support::Trained;

// Three steps: the third is the first that reuses the events of a step.
exec::RunOptions on_queues(const exec::QueueDeviceOptions& device) {
  exec::RunOptions options;
  options.steps = 3;
  options.device = exec::make_queue_device(device);
  return options;
}

// Plans for CPUs have no graphs; their Jobs may.
std::unique_ptr<Trained> train_graphs(const Plan& plan, const exec::RunOptions& options) {
  auto trained = std::make_unique<Trained>();
  trained->job = testing_support::placed_job(plan);
  trained->job.launch = LaunchMode::kGraph;
  trained->result = testing_support::run_text(trained->job, options);
  return trained;
}

Plan offloaded(int pp) {
  Plan plan = testing_support::base_plan("cpu.f32");
  plan.parallel.dp = 2;
  plan.parallel.pp = pp;
  plan.batch.micro_batch = 2;
  plan.zero_stage = 2;
  plan.placement.grads = plan.placement.optimizer = Tier::kCpu;
  return plan;
}

TEST(QueueDeviceRun, LaunchesGraphsFromTheSecondStepOn) {
  std::atomic<int> launches = 0;
  const exec::QueueDeviceOptions device{.graph_launched = [&] { ++launches; }};
  train_graphs(testing_support::base_plan("cpu.f32"), on_queues(device));
  EXPECT_GE(launches, 3);  // one a step at least
}

// Graphs of their own, which leave out what makes no loss, and the dropout of training. Parameters
// stay what they are: a mask that is drawn in a graph is that of one step.
TEST(QueueDeviceRun, ValidatesByGraphsAsByThreads) {
  Plan plan = testing_support::base_plan("cpu.f32.unfused");
  plan.dropout = true;
  exec::RunOptions options;
  options.steps = 3;
  options.train.learning_rate = 0;
  options.validation = testing_support::validation({.every = 2, .batches = 2});
  const auto expected = train(plan, options);
  options.device = exec::make_queue_device({});
  const auto got = train_graphs(plan, options);
  ASSERT_EQ(got->result.validations.size(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got->result.validations[i].loss, expected->result.validations[i].loss);
    EXPECT_EQ(got->result.validations[i].step, i == 0 ? 2 : 3);
  }
  EXPECT_EQ(got->result.validations[1].loss, got->result.validations[0].loss)
      << "of the same samples, with nothing dropped out";
}

// What a stage receives is no part of a graph, which must not begin before it is there.
TEST(QueueDeviceRun, GraphsOfStagesWaitForWhatTheirNeighboursSend) {
  Plan plan = testing_support::base_plan("cpu.f32");
  plan.parallel.pp = 2;
  plan.batch.micro_batch = 1;
  exec::RunOptions options;
  options.steps = 3;
  const auto expected = train(plan, options);
  for (const std::uint64_t seed : {1, 2, 3})
    expect_same_bits(*train_graphs(plan, on_queues({.delay_seed = seed})), *expected, "graphs");
}

TEST(QueueDeviceRun, RecordsEachOperationOnItsLaneInOrder) {
  exec::RunOptions options;
  options.steps = 2;
  options.record_timeline = true;
  const auto expected = train(offloaded(2), options);
  options.device = exec::make_queue_device({.delay_seed = 3});
  const auto got = train(offloaded(2), options);
  const auto by_lane = [](const RankTimeline& rank) {
    std::map<Lane, std::vector<OpId>> lanes;
    for (const Span& span : rank.spans) {
      lanes[span.lane].push_back(span.op);
      EXPECT_LE(span.ready, span.start);
      EXPECT_LE(span.start, span.end);
    }
    return lanes;
  };
  for (std::size_t r = 0; r < expected->result.timeline.ranks.size(); ++r)
    EXPECT_EQ(by_lane(got->result.timeline.ranks[r]), by_lane(expected->result.timeline.ranks[r]));
}

TEST(QueueDeviceRun, SerialGivesTheSameBits) {
  exec::RunOptions options;
  options.steps = 2;
  const auto expected = train(offloaded(2), options);
  options.mode = exec::RunMode::kSerial;
  options.device = exec::make_queue_device();
  expect_same_bits(*train(offloaded(2), options), *expected, "serial");
}

TEST(QueueDeviceRun, InterruptionEndsAllRanksAfterTheSameStep) {
  exec::RunOptions options = on_queues({.delay_seed = 5});
  options.steps = 50;
  std::atomic<int> done = 0;
  options.step_done = [&](std::int64_t, const exec::StepResult&) { ++done; };
  options.interruption.between_steps = [&] { return done >= 2; };
  const auto run = train(offloaded(2), options);
  EXPECT_TRUE(run->result.interrupted);
  EXPECT_EQ(exec::replica_mismatch(run->job, run->result.memory), std::nullopt);
  EXPECT_EQ(std::ssize(run->result.steps), done);
  EXPECT_LT(done, 50);
}

// Of two replicas, whose stages follow each other.
bool is_second(const exec::KernelCall& call) { return call.rank % 2 == 1; }
std::int32_t stage_of(const exec::KernelCall& call) { return call.rank / 2; }

// A device of which something fails in the second of two replicas. With a seed, that replica has
// more work queued when it fails, and lags behind from then on by drawn times: it still has flags
// of the other replica to write when the queues of the other one are through.
class FailingDevice {
 public:
  explicit FailingDevice(std::uint64_t seed) : seed_(seed) {}

  // The run of `options` ends with this error, and no backend goes while a queue is busy.
  template <typename Run>
  void expect_end(exec::QueueDeviceOptions device, const Run& run, const std::string& message) {
    std::atomic<std::int64_t> unfinished = 0;
    device.delay_seed = seed_;
    device.backend_goes = [&](std::int64_t tasks) { unfinished += tasks; };
    try {
      run(on_queues(device));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDevice);
      EXPECT_EQ(error.what(), message);
    }
    EXPECT_EQ(unfinished, 0);
  }

  // In the second step or later, the seed says at which kernel of the lane; other lanes wait.
  void fail_once(const exec::KernelCall& call, Lane lane) {
    constexpr std::uint64_t kKernels = 4;
    if (!is_second(call)) return;
    count(call, -1);
    if (call.step == 0) return;
    if (has_failed_) return lag();
    if (call.node->lane != lane || kernels_++ != seed_ % kKernels) return;
    if (seed_ != 0 && is_launched(lane)) await_launches(stage_of(call));
    fail("the host failed");
  }
  void launch(const exec::KernelCall& call) {
    if (is_second(call)) count(call, 1);
  }
  [[noreturn]] void fail(const char* message) {
    has_failed_ = true;
    throw Error(ExitCode::kDevice, message);
  }
  void lag() {
    constexpr std::uint64_t kLeast = 20, kDrawn = 80;  // milliseconds
    if (seed_ == 0 || !has_failed_) return;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(kLeast + data_draw(seed_, draws_++) % kDrawn));
  }

 private:
  void count(const exec::KernelCall& call, int change) {
    if (call.node->lane == Lane::kCompute)
      ahead_[static_cast<std::size_t>(stage_of(call))] += change;
  }
  // Until some kernels are queued behind this one.
  void await_launches(std::int32_t stage) const {
    constexpr std::int64_t kAhead = 4;
    while (ahead_[static_cast<std::size_t>(stage)] < kAhead)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  const std::uint64_t seed_;
  std::array<std::atomic<std::int64_t>, 2> ahead_{};  // by stage: compute kernels queued
  std::atomic<std::uint64_t> kernels_ = 0, draws_ = 0;
  std::atomic<bool> has_failed_ = false;
};

class QueueDeviceFailure : public testing::TestWithParam<std::uint64_t> {
 protected:
  void expect_end(Lane lane, const std::string& message) {
    FailingDevice failing(GetParam());
    exec::QueueDeviceOptions device;
    device.before_launch = [&](const exec::KernelCall& call) { failing.launch(call); };
    device.before_kernel = [&](const exec::KernelCall& call) { failing.fail_once(call, lane); };
    failing.expect_end(
        device, [](const auto& options) { train(offloaded(2), options); }, message);
  }
};

TEST_P(QueueDeviceFailure, OfTheDeviceEndsAllQueues) {
  expect_end(Lane::kCompute, "the device failed");
}

TEST_P(QueueDeviceFailure, OfTheHostEndsAllQueues) { expect_end(Lane::kCpu, "the host failed"); }

// Of one rank, ahead of the first step.
TEST_P(QueueDeviceFailure, OfACaptureEndsAllQueues) {
  FailingDevice failing(GetParam());
  exec::QueueDeviceOptions device;
  device.before_kernel = [&](const exec::KernelCall& call) {
    if (is_second(call)) failing.lag();
  };
  device.before_launch = [&](const exec::KernelCall& call) {
    if (is_second(call) && call.node->role.phase == Phase::kBackward)
      failing.fail("the launch failed");
  };
  failing.expect_end(
      device, [](const auto& options) { train_graphs(offloaded(1), options); },
      "the launch failed");
}

INSTANTIATE_TEST_SUITE_P(Seeds, QueueDeviceFailure, testing::Range<std::uint64_t>(0, 5));

// A rank of two that does not go on for longer than the deadline.
TEST(QueueDeviceRun, EndsWhenQueuesStandStill) {
  std::atomic<bool> sleeps = true;
  exec::RunOptions options = on_queues({.before_kernel = [&](const exec::KernelCall& call) {
    if (is_second(call) && call.step == 1 && sleeps.exchange(false))
      std::this_thread::sleep_for(std::chrono::seconds(3));
  }});
  options.comm_deadline = std::chrono::seconds(1);
  try {
    train(offloaded(1), options);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    EXPECT_THAT(error.what(), testing::HasSubstr("have stood still for 1 s"));
  }
  sleeps = true;
  options.comm_deadline = std::chrono::seconds(600);
  EXPECT_EQ(train(offloaded(1), options)->result.steps.size(), 3u);
}

TEST(QueueDeviceRun, RefusesGraphsOfRanksThatCannotShareThem) {
  const auto device = [] { return on_queues({.shares_graphs = false}); };
  EXPECT_THROW(train_graphs(offloaded(1), device()), Error);
  EXPECT_NO_THROW(train(offloaded(1), device()));
  EXPECT_NO_THROW(train_graphs(testing_support::base_plan("cpu.f32"), device()));
}

TEST(QueueDeviceRun, RefusesWhatItCannotDo) {
  exec::RunOptions options = on_queues({});
  options.record_timeline = true;
  EXPECT_THROW(train_graphs(offloaded(1), options), Error);
  options = on_queues({});
  options.observer = [](const exec::NodeEvent&) {};
  EXPECT_THROW(train(offloaded(1), options), Error);
  options = on_queues({});
  options.mode = exec::RunMode::kSerial;
  options.guard = true;
  EXPECT_THROW(train(offloaded(1), options), Error);
}

}  // namespace
}  // namespace zplan
