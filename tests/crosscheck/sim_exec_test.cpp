// Simulator and executor read the same Job: their Timelines carry the same operation ids on the
// same lanes in the same order, and a folded Job trains like its unrolled twin.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "exec/state_access.h"
#include "planner/place/memory_report.h"
#include "planner/program/unroll.h"
#include "planner/program/verify.h"
#include "sim/simulate.h"
#include "tests/support/live_bytes.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::Choice;

constexpr int kSteps = 2;

// Operation ids of each step by lane, in the order they ran; marks, which take no time, left out.
using LaneOrder = std::map<std::pair<Lane, std::int32_t>, std::vector<OpId>>;

LaneOrder lane_order(const RankTimeline& rank) {
  std::vector<Span> spans = rank.spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& x, const Span& y) { return x.start < y.start; });
  LaneOrder order;
  for (const Span& s : spans)
    if (s.step < kSteps && kind_of(role_of(s.op).action, s.lane) != OpKind::kMark)
      order[{s.lane, s.step}].push_back(s.op);
  return order;
}

Job placed_job(const Choice& choice) {
  return testing_support::placed_job(testing_support::plan_of(choice, "cpu.f32"));
}

sim::SimOptions recording() {
  sim::SimOptions options;
  options.record_timeline = true;
  return options;
}

exec::RunResult train(const Job& job) {
  exec::RunOptions options;
  options.steps = kSteps;
  options.record_timeline = true;
  return testing_support::run_text(job, options);
}

class SimExec : public testing::TestWithParam<Choice> {};

// What a comparison of Timelines, which know no nodes, makes of them.
TEST_P(SimExec, LaneAndActionTellTheKindOfAnOperation) {
  Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  for (const bool delayed : {false, true}) {
    plan.delayed_update = delayed;
    const ModelConfig model = load_model(plan.model);
    if (illegal(plan, shape_of(model))) continue;
    for (const RankClass& c : lower(plan, model).classes)
      for (const Node& node : c.program.nodes)
        EXPECT_EQ(kind_of(node.role.action, node.lane), node.kind) << name(node.role);
  }
}

TEST_P(SimExec, TimelinesCarryTheSameOperationsOnTheSameLanes) {
  const Job job = placed_job(GetParam());
  const Cluster cluster = load_cluster("workstationx2");
  const Timeline sim = sim::simulate(job, cluster, recording()).timeline;
  const Timeline exec = train(job).timeline;
  ASSERT_EQ(sim.ranks.size(), job.classes.size());
  ASSERT_EQ(exec.ranks.size(), static_cast<std::size_t>(job.world()));
  for (const RankTimeline& rank : exec.ranks) {
    const auto predicted =
        std::find_if(sim.ranks.begin(), sim.ranks.end(),
                     [&](const RankTimeline& r) { return r.stage == rank.stage; });
    ASSERT_NE(predicted, sim.ranks.end());
    EXPECT_EQ(lane_order(rank), lane_order(*predicted)) << "stage " << rank.stage;
  }
}

TEST_P(SimExec, FoldedJobAndUnrolledTwinAreTheSame) {
  const Job folded = placed_job(GetParam());
  const Job unrolled = unroll(folded);
  const Cluster cluster = load_cluster("workstationx2");
  const sim::SimOptions options = recording();
  EXPECT_EQ(sim::simulate(folded, cluster, options).timeline,
            sim::simulate(unrolled, cluster, options).timeline);
  const exec::RunResult a = train(folded);
  const exec::RunResult b = train(unrolled);
  EXPECT_FALSE(exec::largest_difference(folded, a.memory, unrolled, b.memory));
  // The one placement serves both: every reuse of memory is ordered in the unrolled twin, too.
  EXPECT_EQ(verify(unrolled), std::vector<std::string>{});
}

// measure() itself need not agree: a buffer lives for one range of nodes, and where a loop has
// become blocks that run once there is no loop to widen a range to, nor a body to confine it to.
// So the bytes of both are counted anew, by instance; and no placement may promise less than that.
TEST_P(SimExec, FoldedJobAndUnrolledTwinHoldTheSameBytes) {
  const Job folded = placed_job(GetParam());
  const Job unrolled = unroll(folded);
  const MemoryReport report = measure(folded);
  for (std::size_t c = 0; c < folded.classes.size(); ++c) {
    const auto ranks = testing_support::live_bytes(folded, c);
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

INSTANTIATE_TEST_SUITE_P(Pairwise, SimExec, testing::ValuesIn(testing_support::pairwise_choices()),
                         [](const auto& plan) { return testing_support::name_of(plan.param); });

}  // namespace
}  // namespace zplan
