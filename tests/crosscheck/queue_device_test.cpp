// A device with queues runs every plan to the same bits as lanes that are threads do, in stream and
// graph mode; failures and interruptions end its runs.
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "exec/state_access.h"
#include "planner/core/error.h"
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

class QueueDevice : public testing::TestWithParam<testing_support::Choice> {};

TEST_P(QueueDevice, GivesTheBitsOfThreads) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  exec::RunOptions options;
  options.steps = 3;
  const auto expected = train(plan, options);
  expect_same_bits(*train(plan, on_queues({.delay_seed = 1})), *expected, "stream");
  expect_same_bits(*train_graphs(plan, on_queues({})), *expected, "graph");
}

INSTANTIATE_TEST_SUITE_P(Plans, QueueDevice, testing::ValuesIn(testing_support::pairwise_choices()),
                         [](const auto& choice) { return testing_support::name_of(choice.param); });

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
  options.interrupted = [&] { return done >= 2; };
  const auto run = train(offloaded(2), options);
  EXPECT_TRUE(run->result.interrupted);
  EXPECT_EQ(exec::replica_mismatch(run->job, run->result.memory), std::nullopt);
  EXPECT_EQ(std::ssize(run->result.steps), done);
  EXPECT_LT(done, 50);
}

// What queues compute after a failure does not matter, so they run on unordered: races on purpose.
#ifdef __SANITIZE_THREAD__
constexpr bool kRacesAreTold = true;
#else
constexpr bool kRacesAreTold = false;
#endif

// Fails in the second step, on a lane of the device or of the host, with other lanes waiting.
void expect_end(Lane lane, const std::string& message) {
  exec::QueueDeviceOptions device;
  std::atomic<bool> failed = false;
  device.before_kernel = [&](const exec::KernelCall& call) {
    if (call.step == 1 && call.node->lane == lane && call.dp_index == 1 && !failed.exchange(true))
      throw Error(ExitCode::kDevice, "the host failed");
  };
  try {
    train(offloaded(2), on_queues(device));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    EXPECT_EQ(error.what(), message);
  }
}

TEST(QueueDeviceRun, EndsWhenTheDeviceFails) {
  if (kRacesAreTold) GTEST_SKIP();
  expect_end(Lane::kCompute, "the device failed");
}

TEST(QueueDeviceRun, EndsWhenTheHostFails) {
  if (kRacesAreTold) GTEST_SKIP();
  expect_end(Lane::kCpu, "the host failed");
}

// Of one rank, while the queues of the others wait for it.
TEST(QueueDeviceRun, EndsWhenACaptureFails) {
  if (kRacesAreTold) GTEST_SKIP();
  exec::QueueDeviceOptions device;
  device.before_launch = [](const exec::KernelCall& call) {
    if (call.dp_index == 1 && call.node->role.phase == Phase::kBackward)
      throw Error(ExitCode::kDevice, "the launch failed");
  };
  try {
    train_graphs(offloaded(1), on_queues(device));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the launch failed");
  }
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
