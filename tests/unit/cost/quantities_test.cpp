// Every quantity of the table is one that the cost model or the memory of a tier depends on.
#include "hwprofiles/quantities.h"

#include <gtest/gtest.h>

#include "planner/place/place.h"
#include "sim/simulate.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::recompute_all;
using testing_support::round_model;

struct Shape {
  int dp, tp, pp;
  std::int32_t zero;
  StatePlacement at;
  LaunchMode launch = LaunchMode::kStream;
};

Job job_of(const Shape& shape) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = shape.dp;
  plan.parallel.tp = shape.tp;
  plan.parallel.pp = shape.pp;
  plan.zero_stage = shape.zero;
  plan.placement = shape.at;
  plan.launch = shape.launch;
  plan.gather = Gather::kLayer;
  plan.recompute = recompute_all(Recompute::kFull);
  plan.batch = {.global_batch = 2 * shape.dp, .micro_batch = 1, .sequence = 128};
  Job job = lower(plan, round_model());
  place(job, {.slack = plan.slack});
  return job;
}

// Between them they use every part of a cluster.
std::vector<Job> jobs() {
  using enum Tier;
  return {job_of({32, 1, 1, 3, {kCpu, kCpu, kNvme, kCpu}}),
          job_of({4, 8, 1, 1, {kGpu, kGpu, kGpu, kGpu}}),
          job_of({1, 1, 4, 0, {kGpu, kGpu, kGpu, kGpu}}),
          job_of({4, 4, 2, 1, {kGpu, kGpu, kGpu, kGpu}, LaunchMode::kGraph})};
}

std::vector<Seconds> steps_on(const std::vector<Job>& jobs, const Cluster& cluster) {
  std::vector<Seconds> steps;
  for (const Job& job : jobs) steps.push_back(sim::simulate(job, cluster).period);
  return steps;
}

bool is_memory(const HardwareQuantity& quantity) { return quantity.unit == QuantityUnit::kBytes; }

// So much worse, or better, that it shows wherever it counts at all.
QuantityChange changed(const HardwareQuantity& quantity, bool worse) {
  const bool is_count = quantity.unit == QuantityUnit::kCount;
  if (is_count) return {&quantity, worse ? 1.0 : 100'000.0, false};
  const bool grows_worse =
      quantity.unit == QuantityUnit::kSeconds || quantity.unit == QuantityUnit::kFactor;
  const double most = quantity.unit == QuantityUnit::kFactor ? 2 : 1000;
  return {&quantity, worse == grows_worse ? most : 1 / most, true};
}

TEST(QuantitiesOfTime, AllCountSomewhere) {
  const std::vector<Job> jobs = zplan::jobs();
  Cluster cluster = load_cluster("dgx-a100x4");
  cluster.network = {.nodes_per_leaf = 2, .oversubscription = 4};
  const std::vector<Seconds> as_is = steps_on(jobs, cluster);
  for (const HardwareQuantity& quantity : hardware_quantities()) {
    if (is_memory(quantity) || is_layout(quantity.name)) continue;
    ASSERT_TRUE(quantity.get(cluster)) << quantity.name;
    const QuantityChange down = changed(quantity, true), up = changed(quantity, false);
    const std::vector<Seconds> worse = steps_on(jobs, with_changes(cluster, {&down, 1}));
    const std::vector<Seconds> better = steps_on(jobs, with_changes(cluster, {&up, 1}));
    bool counts = false;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      // Within what transfers lose that meet otherwise on shared links.
      EXPECT_GE(worse[i].value, as_is[i].value * 0.99) << quantity.name << " " << i;
      EXPECT_LE(better[i].value, as_is[i].value * 1.01) << quantity.name << " " << i;
      counts = counts || worse[i].value > better[i].value * 1.005;
    }
    EXPECT_TRUE(counts) << quantity.name;
  }
}

}  // namespace
}  // namespace zplan
