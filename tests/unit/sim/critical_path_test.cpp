// What a simulated time is said to rest on is how it moves when a constant does.
#include "sim/critical_path.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
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
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"data", "dgx-a100x2", "cuda.sm80.bf16.unfused", "megatron2022",
       [](Plan& plan) {
         plan.parallel.dp = 16;
         plan.zero_stage = 1;
       }},
      {"sharded", "dgx-a100x2", "cuda.sm80.bf16", "fsdp2023",
       [](Plan& plan) {
         plan.parallel.dp = 16;
         plan.zero_stage = 3;
       }},
      {"pipeline", "dgx-a100x2", "cuda.sm80.bf16", "megatron2022",
       [](Plan& plan) {
         plan.parallel.dp = 2;
         plan.parallel.tp = 4;
         plan.parallel.pp = 2;
         plan.batch.global_batch = 128;
       }},
      {"host bound", "dgx-a100", "cuda.sm80.bf16.unfused", "megatron_deepspeed",
       [](Plan& plan) {
         plan.parallel.dp = 4;
         plan.parallel.tp = 2;
       }},
      {"offloaded", "dgx2", "cuda.sm70.fp16.unfused", "deepspeed2020",
       [](Plan& plan) {
         plan.parallel.dp = 16;
         plan.zero_stage = 2;
         plan.placement.grads = Tier::kCpu;
         plan.placement.optimizer = Tier::kCpu;
       }},
      {"on drives", "dgx-a100", "cuda.sm80.bf16", "own",
       [](Plan& plan) {
         plan.parallel.dp = 8;
         plan.zero_stage = 3;
         plan.placement.optimizer = Tier::kNvme;
         plan.placement.grads = Tier::kCpu;
       }},
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
  return cluster;
}

// The hardware takes `factor` times as long for one kind of work.
void slow_down(Cluster& cluster, HardwareTime kind, double factor) {
  DeviceProfile& device = cluster.node.device;
  const auto slower = [&](LinkClass& link) { link.efficiency /= factor; };
  switch (kind) {
    case HardwareTime::kProducts:
      device.sustained *= factor;
      device.gemm_efficiency /= factor;
      return;
    case HardwareTime::kMemory:
      device.memory_efficiency /= factor;
      return;
    case HardwareTime::kLaunch:
      device.launch_overhead = device.launch_overhead * factor;
      return;
    case HardwareTime::kHostMemory:
      cluster.node.host.cpu_memory_efficiency /= factor;
      return;
    case HardwareTime::kDrives:
      cluster.node.nvme.efficiency /= factor;
      return;
    default:
      slower(cluster.node.topology.gpu_pcie);
  }
}

double seconds(const Job& job, const Cluster& cluster) {
  return simulate(job, cluster).period.value;
}

TEST(CriticalPath, Prints) {
  for (const Case& c : cases()) {
    const Job job = job_of(c);
    const Cluster cluster = cluster_of(c);
    const SimResult result = simulate(job, cluster, {.find_reliances = true, .fingerprint = {}});
    double sum = 0;
    for (double r : result.reliances) sum += r;
    std::printf("%s: %g s sum %.3f\n", c.name.c_str(), result.period.value, sum);
    for (std::size_t k = 0; k < stack_rates().size(); ++k) {
      constexpr double kStep = 0.002;
      Cluster moved = cluster;
      double& rate = moved.stack.*stack_rates()[k].member;
      if (rate == 0) continue;
      rate *= rate * (1 + kStep) > stack_rates()[k].most ? 1 / (1 + kStep) : 1 + kStep;
      const double up = rate / (cluster.stack.*stack_rates()[k].member);
      const double found = std::log(seconds(job, moved) / result.period.value) / std::log(up);
      if (std::abs(found) < 0.004 && std::abs(result.reliances[k]) < 0.004) continue;
      std::printf("   %-20s said %7.3f found %7.3f\n", stack_rates()[k].name.data(),
                  result.reliances[k], found);
    }
    for (int h = 0; h < kHardwareTimeCount; ++h) {
      const auto kind = static_cast<HardwareTime>(h);
      constexpr double kStep = 0.002;
      Cluster moved = cluster;
      slow_down(moved, kind, 1 + kStep);
      const double found = std::log(seconds(job, moved) / result.period.value) / std::log1p(kStep);
      const double said = result.reliances[constant_of(kind)];
      if (std::abs(found) < 0.004 && std::abs(said) < 0.004) continue;
      std::printf("   %-20s said %7.3f found %7.3f\n", std::string(name(kind)).c_str(), said, found);
    }
  }
}

}  // namespace
}  // namespace zplan::sim
