// Every plan of the pairwise cover is lowered and placed once, and all that reads its Job must
// agree:
//   verify; the text form; place's bytes, recounted from the text and by instance; the simulator,
//   the folded Job and its unrolled twin; the executor, threaded, serial, guarded (law 3: no
//   operation touches a byte that it does not declare, every declared write is complete, nothing is
//   read that another buffer has overwritten), with lanes as queues and as graphs; and training on
//   one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "planner/place/memory_report.h"
#include "planner/program/instances/unroll.h"
#include "planner/program/instances/validation.h"
#include "planner/program/text/fingerprint.h"
#include "planner/program/verify/verify.h"
#include "sim/simulate.h"
#include "tests/crosscheck/cover/one_rank.h"
#include "tests/support/live_bytes.h"
#include "tests/support/plan_cover.h"
#include "tests/support/queue_device.h"
#include "tests/support/recount.h"
#include "tests/support/same_stream.h"
#include "tests/support/sanitized.h"

namespace zplan {
namespace {

using testing_support::Choice;
using testing_support::kCoverSteps;
using testing_support::Logged;

// The one placement serves both: every reuse of memory is ordered in the unrolled twin, too.
void expect_verified(const Job& job, const Job& unrolled) {
  EXPECT_EQ(verify(job), std::vector<std::string>{});
  EXPECT_EQ(verify(unrolled), std::vector<std::string>{});
}

void expect_text_to_read_back(const Job& job) {
  const std::string text = to_text(job);
  const Job read = parse_zprog(text, "plan.zprog");
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(fingerprint(read), fingerprint(job));
}

// An independent walker over the text counts the bytes that place counted.
void expect_recounted_bytes(const Job& job, const std::string& unique) {
  const Recount counted = recount(job, unique);
  ASSERT_TRUE(counted.ok) << counted.err;
  const auto json = nlohmann::json::parse(counted.out);
  for (const ClassMemory& memory : measure(job).classes) {
    for (std::size_t t = 0; t < kTierCount; ++t) {
      const TierMemory& expected = memory.tiers[t];
      const auto tier = json.at(std::to_string(memory.stage)).at(name(static_cast<Tier>(t)));
      EXPECT_EQ(tier.at("peak_bytes"), expected.live_peak.value);
      for (std::size_t c = 0; c < kCategoryCount; ++c) {
        const std::string category{name(static_cast<Category>(c))};
        EXPECT_EQ(tier.at("by_category").value(category, std::int64_t{0}),
                  expected.by_category[c].value)
            << category;
      }
    }
  }
}

// measure() itself need not agree: a buffer lives for one range of nodes, and where a loop has
// become blocks that run once there is no loop to widen a range to, nor a body to confine it to.
// So the bytes of both are counted anew, by instance; and no placement may promise less than that.
void expect_same_bytes(const Job& job, const Job& unrolled) {
  const MemoryReport report = measure(job);
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const auto ranks = testing_support::live_bytes(job, c);
    EXPECT_TRUE(ranks == testing_support::live_bytes(unrolled, c));
    const auto& bytes = ranks.front();
    for (const auto& rank : ranks) EXPECT_TRUE(rank == bytes) << "a class is one for all its ranks";
    for (std::size_t t = 0; t < kTierCount; ++t) {
      EXPECT_EQ(bytes[t].unwritten_reads, 0) << name(static_cast<Tier>(t));
      EXPECT_LE(bytes[t].peak, report.classes[c].tiers[t].live_peak.value);
    }
    EXPECT_GT(bytes[static_cast<std::size_t>(Tier::kGpu)].peak, 0);
  }
}

// Returns what was simulated.
Timeline expect_same_simulation(const Job& job, const Job& unrolled) {
  const Cluster cluster = load_cluster("workstationx2");
  sim::SimOptions options;
  options.record_timeline = true;
  const Timeline timeline = sim::simulate(job, cluster, options).timeline;
  EXPECT_EQ(timeline, sim::simulate(unrolled, cluster, options).timeline);
  return timeline;
}

// What a comparison of Timelines, which know no nodes, makes of them.
void expect_kinds_that_lanes_and_actions_tell(const Job& job) {
  for (const RankClass& c : job.classes)
    for (const Node& node : c.program.nodes)
      EXPECT_EQ(kind_of(node.role.action, node.lane), node.kind) << name(node.role);
}

// Operation ids of each step by lane, in the order they ran; marks, which take no time, left out.
// Of those that start together the first takes none, as what stands for a part of a product.
using LaneOrder = std::map<std::pair<Lane, std::int32_t>, std::vector<OpId>>;

LaneOrder lane_order(const RankTimeline& rank, std::int32_t steps) {
  std::vector<Span> spans = rank.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const Span& x, const Span& y) {
    return std::pair(x.start, x.end) < std::pair(y.start, y.end);
  });
  LaneOrder order;
  for (const Span& s : spans)
    if (s.step < steps && kind_of(role_of(s.op).action, s.lane) != OpKind::kMark)
      order[{s.lane, s.step}].push_back(s.op);
  return order;
}

// In the steps that both have.
void expect_same_lanes(const Job& job, const Timeline& simulated, const Timeline& executed) {
  constexpr std::int32_t kSteps = 2;
  ASSERT_EQ(simulated.ranks.size(), job.classes.size());
  ASSERT_EQ(executed.ranks.size(), static_cast<std::size_t>(job.world()));
  for (const RankTimeline& rank : executed.ranks) {
    const auto predicted =
        std::find_if(simulated.ranks.begin(), simulated.ranks.end(),
                     [&](const RankTimeline& r) { return r.stage == rank.stage; });
    ASSERT_NE(predicted, simulated.ranks.end());
    EXPECT_EQ(lane_order(rank, kSteps), lane_order(*predicted, kSteps)) << "stage " << rank.stage;
  }
}

void expect_bits(const Job& job, exec::RunOptions options, const Logged& expected,
                 const std::string& how) {
  options.steps = kCoverSteps;
  const exec::RunResult result = testing_support::run_text(job, options);
  testing_support::expect_same_bits(job, result, expected.job, expected.result, how);
}

exec::RunOptions serial(std::uint64_t schedule_seed) {
  exec::RunOptions options;
  options.mode = exec::RunMode::kSerial;
  options.schedule_seed = schedule_seed;
  options.guard = schedule_seed == 0;
  return options;
}

exec::RunOptions on_queues(std::uint64_t delay_seed) {
  exec::RunOptions options;
  options.device = exec::make_queue_device({.delay_seed = delay_seed});
  options.comm_deadline = std::chrono::seconds(60);  // queues that stand still end the test
  return options;
}

// On the text that is trained on, after each step, where the job allows it.
exec::RunOptions validated(const Job& job, exec::RunOptions options) {
  if (no_validation(job)) return options;
  options.validation = testing_support::validation({.every = 1, .batches = 1});
  return options;
}

void expect_graphs(const Logged& threaded) {
  Job graphs = threaded.job;  // plans for CPUs have none; their Jobs may
  graphs.launch = LaunchMode::kGraph;
  expect_bits(graphs, validated(graphs, on_queues(0)), threaded, "graphs, validated");
}

// Plans take turns in which ways they go besides the guarded one; `tests/run --all` goes all.
void expect_same_bits_however_it_runs(const Job& unrolled, const Logged& threaded) {
  static testing_support::Thinned turns(testing_support::one_in(2));
  const bool is_first = !turns.skips();
  expect_bits(threaded.job, serial(0), threaded, "serial, guarded");
  if (is_first) {
    expect_bits(threaded.job, serial(1), threaded, "serial, in a drawn order");
    expect_graphs(threaded);
  }
  if (!is_first || testing_support::is_everything_asked_for()) {
    expect_bits(unrolled, {}, threaded, "unrolled");
    expect_bits(threaded.job, on_queues(1), threaded, "queues");
  }
}

class Cover : public testing::TestWithParam<Choice> {};

// Sanitizers see the executor alone: ThreadSanitizer what has threads, once each way, and
// AddressSanitizer the two ways that have code of their own.
TEST_P(Cover, AllReadersOfAJobAgree) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  const auto threaded = testing_support::train_logged(plan);
  const Job& job = threaded->job;
  if (testing_support::kThreadSanitized) return expect_bits(job, on_queues(1), *threaded, "queues");
  if (testing_support::kAddressSanitized) return expect_graphs(*threaded);
  const Job unrolled = unroll(job);
  expect_verified(job, unrolled);
  expect_kinds_that_lanes_and_actions_tell(job);
  expect_text_to_read_back(job);
  for (std::size_t c = 0; c < job.classes.size(); ++c)
    expect_same_stream(job.classes[c].program, unrolled.classes[c].program, 2);
  expect_recounted_bytes(job, testing_support::name_of(GetParam()));
  expect_same_bytes(job, unrolled);
  expect_same_lanes(job, expect_same_simulation(job, unrolled), threaded->result.timeline);
  expect_same_bits_however_it_runs(unrolled, *threaded);
  testing_support::expect_agreement_within_rounding(plan, *threaded);
}

class CoverInFp64 : public Cover {};

TEST_P(CoverInFp64, AgreesWithOneRankTo1em10) {
  testing_support::expect_agreement_in_fp64(testing_support::plan_of(GetParam(), "cpu.f64"));
}

std::string plan_name(const testing::TestParamInfo<Choice>& plan) {
  return testing_support::name_of(plan.param);
}

INSTANTIATE_TEST_SUITE_P(Pairwise, Cover, testing::ValuesIn(testing_support::choices_to_train()),
                         plan_name);
// To sanitizers these cases would be those of fp32 once more.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CoverInFp64);
INSTANTIATE_TEST_SUITE_P(Pairwise, CoverInFp64,
                         testing::ValuesIn(testing_support::kSanitized
                                               ? std::vector<Choice>{}
                                               : testing_support::choices_to_train()),
                         plan_name);

}  // namespace
}  // namespace zplan
