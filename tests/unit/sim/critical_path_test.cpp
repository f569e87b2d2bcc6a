// What a simulated time is said to rest on is how it moves when a constant does.
#include "sim/critical_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "sim/simulate.h"

namespace zplan::sim {
namespace {

struct Case {
  std::string name, cluster, kernel_set, stack;
  std::function<void(Plan&)> change;
  double tolerance;  // of an elasticity; more where a small change makes others wait
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"data", "dgx-a100x2", "cuda.sm80.bf16.unfused", "megatron2022",
       [](Plan& plan) {
         plan.parallel.dp = 16;
         plan.zero_stage = 1;
       },
       0.01},
      {"sharded", "dgx-a100x2", "cuda.sm80.bf16", "fsdp2023",
       [](Plan& plan) {
         plan.parallel.dp = 16;
         plan.zero_stage = 3;
       },
       0.15},
      {"pipeline", "dgx-a100x2", "cuda.sm80.bf16", "megatron2022",
       [](Plan& plan) {
         plan.parallel.dp = 2;
         plan.parallel.tp = 4;
         plan.parallel.pp = 2;
         plan.batch.global_batch = 128;
       },
       0.01},
      {"host bound", "dgx-a100", "cuda.sm80.bf16.unfused", "megatron_deepspeed",
       [](Plan& plan) {
         plan.parallel.dp = 4;
         plan.parallel.tp = 2;
       },
       0.04},
      {"offloaded", "dgx2", "cuda.sm70.fp16.unfused", "deepspeed2020",
       [](Plan& plan) {
         plan.parallel.dp = 16;
         plan.zero_stage = 2;
         plan.placement.grads = Tier::kCpu;
         plan.placement.optimizer = Tier::kCpu;
       },
       0.05},
      {"on drives", "dgx-a100", "cuda.sm80.bf16", "own",
       [](Plan& plan) {
         plan.parallel.dp = 8;
         plan.zero_stage = 3;
         plan.placement.optimizer = Tier::kNvme;
         plan.placement.grads = Tier::kCpu;
       },
       0.02},
      {"on drives that wait", "rtx4090-12ssd", "cuda.sm89.bf16", "fuyou",
       [](Plan& plan) {
         plan.zero_stage = 3;
         plan.placement.optimizer = Tier::kNvme;
         plan.placement.grads = Tier::kCpu;
       },
       0.02},
  };
  return all;
}

ModelConfig model() {
  ModelConfig model;
  model.name = "small";
  model.layers = 8;
  model.hidden = 1024;
  model.heads = model.kv_heads = 16;
  model.ffn = 4096;
  model.vocab = 50257;
  model.sequence = 1024;
  return model;
}

Job job_of(const Case& c) {
  Plan plan;
  plan.kernel_set = c.kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 32, .micro_batch = 2, .sequence = 1024};
  if (c.kernel_set.find("fp16") != std::string::npos) plan.loss_scaling = true;
  c.change(plan);
  Job job = lower(plan, model());
  place(job, {.slack = plan.slack});
  return job;
}

Cluster cluster_of(const Case& c) {
  Cluster cluster = load_cluster(c.cluster);
  cluster.stack = load_stack(c.stack).rates;
  // The host that bounds a step waits for the device at each layer. Of one that never waits, folded
  // iterations give the host's rates up to 7e-4 more than whole ones do: left out here.
  constexpr double kWait = 36e-6;
  if (c.name == "host bound") cluster.stack.host_sync = kWait;
  return cluster;
}

// The hardware takes `factor` times as long for one kind of work; false: not one figure says it.
bool slow_down(Cluster& cluster, HardwareTime kind, double factor) {
  switch (kind) {
    case HardwareTime::kProducts:
      cluster.node.device.sustained *= factor;
      return true;
    case HardwareTime::kMemory:
      cluster.node.device.memory_efficiency /= factor;
      return true;
    case HardwareTime::kLaunch:
      cluster.node.device.launch_overhead = cluster.node.device.launch_overhead * factor;
      return true;
    case HardwareTime::kHostMemory:
      cluster.node.host.cpu_memory_efficiency /= factor;
      return true;
    case HardwareTime::kAttention:
    case HardwareTime::kPeerLinks:
    case HardwareTime::kNetwork:
    case HardwareTime::kHostLink:
    case HardwareTime::kDrives:
      return false;
  }
  return false;
}

double log_time(const Job& job, const Cluster& cluster) {
  return std::log(simulate(job, cluster).period.value);
}

SimResult with_reliances(const Job& job, const Cluster& cluster) {
  return simulate(job, cluster, {.find_reliances = true, .fingerprint = {}});
}

class CriticalPathOf : public testing::TestWithParam<Case> {};

// Rates that are no rate but a switch: staged copies are another mode, slices no time.
bool is_smooth(const StackRate& rate) {
  return rate.name != "staged_copies" && rate.name != "sliced_boundary";
}

TEST_P(CriticalPathOf, SaysHowTheTimeFollowsEachRateOfTheStack) {
  const Job job = job_of(GetParam());
  const Cluster cluster = cluster_of(GetParam());
  const SimResult result = with_reliances(job, cluster);
  ASSERT_EQ(result.reliances.size(), constant_count());
  constexpr double kStep = 0.002;
  for (std::size_t k = 0; k < stack_rates().size(); ++k) {
    const StackRate& row = stack_rates()[k];
    Cluster moved = cluster;
    double& rate = moved.stack.*row.member;
    if (rate == 0 || !is_smooth(row)) continue;
    const double step = rate * (1 + kStep) > row.most ? -kStep : kStep;
    rate *= std::exp(step);
    const double found = (log_time(job, moved) - std::log(result.period.value)) / step;
    EXPECT_NEAR(result.reliances[k], found, GetParam().tolerance) << row.name;
  }
}

TEST_P(CriticalPathOf, SaysHowTheTimeFollowsTheHardware) {
  const Job job = job_of(GetParam());
  const Cluster cluster = cluster_of(GetParam());
  const SimResult result = with_reliances(job, cluster);
  constexpr double kStep = 0.002;
  for (int h = 0; h < kHardwareTimeCount; ++h) {
    const auto kind = static_cast<HardwareTime>(h);
    Cluster moved = cluster;
    if (!slow_down(moved, kind, std::exp(kStep))) continue;
    const double found = (log_time(job, moved) - std::log(result.period.value)) / kStep;
    EXPECT_NEAR(result.reliances[constant_of(kind)], found, GetParam().tolerance) << name(kind);
  }
}

TEST_P(CriticalPathOf, ChangesNoTime) {
  const Job job = job_of(GetParam());
  const Cluster cluster = cluster_of(GetParam());
  EXPECT_EQ(with_reliances(job, cluster).period.value, simulate(job, cluster).period.value);
  EXPECT_TRUE(simulate(job, cluster).reliances.empty());
}

TEST_P(CriticalPathOf, IsTheSameWhetherIterationsAreSkippedOrNot) {
  const Job job = job_of(GetParam());
  const Cluster cluster = cluster_of(GetParam());
  const SimResult folded = with_reliances(job, cluster);
  const SimResult whole = simulate(
      job, cluster, {.find_reliances = true, .skip_repetitions = false, .fingerprint = {}});
  for (std::size_t k = 0; k < folded.reliances.size(); ++k)
    EXPECT_NEAR(folded.reliances[k], whole.reliances[k], 1e-6)
        << constant_name(static_cast<Constant>(k));
}

INSTANTIATE_TEST_SUITE_P(Plans, CriticalPathOf, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace zplan::sim
