// Changed links change what goes over them as much, and nothing else.
#include "planner/cli/bandwidth/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/place/place.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::recompute_all;
using testing_support::round_model;

constexpr LinkGroup kGroups[] = {LinkGroup::kPeers,      LinkGroup::kNetwork, LinkGroup::kPcie,
                                 LinkGroup::kHostMemory, LinkGroup::kSockets, LinkGroup::kDrives};

// Large units, so that starts of collectives do not count.
Job job_of(int replicas) {
  ModelConfig model = round_model();
  model.hidden = 4096;
  model.ffn = 16384;
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = replicas;
  plan.zero_stage = 3;
  plan.recompute = recompute_all(Recompute::kFull);
  plan.placement = {Tier::kCpu, Tier::kCpu, Tier::kNvme, Tier::kCpu};
  plan.gather = Gather::kLayer;
  plan.batch = {.global_batch = replicas, .micro_batch = 1, .sequence = 128};
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  return job;
}

std::vector<TierTraffic> traffic_on(const Job& job, const Cluster& cluster) {
  return tier_traffic(CostModel(job, cluster));
}

class Sweeps : public testing::TestWithParam<const char*> {
 protected:
  const Cluster cluster_ = load_cluster(GetParam());
  const Job job_ = job_of(cluster_.devices());
};

TEST_P(Sweeps, OfAsMuchChangeNothing) {
  const Seconds as_is = sim::simulate(job_, cluster_).period;
  for (const LinkGroup group : kGroups) {
    const Seconds same = sim::simulate(job_, with_rate(cluster_, group, 1)).period;
    EXPECT_NEAR(same.value, as_is.value, 5e-3 * as_is.value) << name(group);
  }
}

// Half the rate halves what the links limit, and slows no more than that.
TEST_P(Sweeps, HalveWhatTheChangedLinksLimit) {
  const std::vector<TierTraffic> before = traffic_on(job_, cluster_);
  for (const LinkGroup group : kGroups) {
    const std::vector<TierTraffic> after = traffic_on(job_, with_rate(cluster_, group, 0.5));
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double ratio = after[i].rate().value / before[i].rate().value;
      EXPECT_LE(ratio, 1 + 1e-9) << name(group) << name(before[i].hop);
      EXPECT_GE(ratio, 0.45) << name(group) << name(before[i].hop);
      if (group_of(before[i].link.kind) != group) continue;
      EXPECT_LE(ratio, 0.6) << name(group) << " " << name(before[i].state) << name(before[i].hop);
    }
  }
}

TEST_P(Sweeps, HaveAPointForEachFactorAndTheClusterAsItIs) {
  const sim::SimResult as_is = sim::simulate(job_, cluster_);
  const std::vector<Sweep> sweeps =
      sweep_links(job_, cluster_, traffic_on(job_, cluster_), as_is, 2);
  EXPECT_EQ(sweeps.size(), kHopCount);
  for (const Sweep& sweep : sweeps) {
    EXPECT_EQ(sweep.points[kSweepAsIs].step, as_is.period);
    EXPECT_EQ(sweep.points[kSweepAsIs].exposed, exposed_of(as_is.split, sweep.hop));
    EXPECT_GE(sweep.points.front().step, sweep.points.back().step * 0.999) << name(sweep.hop);
  }
}

// The paper's efficiency knows no overlap, and full overlap leaves the longest: a simulated step
// lies between, whatever the rate of the link.
TEST_P(Sweeps, LieBetweenFullOverlapAndNone) {
  for (const double factor : kSweepFactors) {
    const Cluster changed = with_rate(cluster_, LinkGroup::kPcie, factor);
    const std::vector<TierTraffic> traffic = traffic_on(job_, changed);
    Seconds none = traffic.front().compute, full = none;
    for (const TierTraffic& one : traffic) {
      none += one.busy;
      if (one.hop == Hop::kGpuCpu) full = std::max(full, one.busy * (one.farther > 0 ? 0.5 : 1));
    }
    const Seconds step = sim::simulate(job_, changed).period;
    EXPECT_GE(step, full) << factor;
    EXPECT_LE(step.value, 1.1 * none.value) << factor;
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, Sweeps, testing::Values("dgx-a100", "dgx-a100x2", "dgx-h100x2"));

}  // namespace
}  // namespace zplan
