// Pipeline schedules: micro-batches in flight from the order of lowered Jobs, and the bubble from
// the simulator.
//   1F1B   stage i of p keeps min(m, p - i) micro-batches [Narayanan21 sec 2.2.1]
//   GPipe  every stage keeps all m [Huang19 sec 2.3]
//   bubble of both: (p - 1) / m of the time that a stage computes, with equal stages and free
//   communication [Narayanan21 sec 2.2.1]
// Stages are equal but for embedding and head, which the small vocabulary makes light, and the
// update, which is taken out. Tolerance 1 % of the time: what they leave.
#include <gtest/gtest.h>

#include <set>

#include "planner/place/place.h"
#include "planner/program/cursor.h"
#include "sim/simulate.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

struct Case {
  Schedule schedule;
  int stages, micro_batches;
};

ModelConfig deep_model() {
  ModelConfig model = testing_support::round_model();
  model.layers = 16;
  model.hidden = 4096;
  model.heads = model.kv_heads = 32;
  model.ffn = 4 * model.hidden;
  model.vocab = 128;
  model.sequence = 2048;
  return model;
}

Job job_of(const Case& c) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.pp = c.stages;
  plan.schedule = c.schedule;
  plan.clip = false;  // the norm of all gradients would make the stages wait for each other
  plan.batch = {.global_batch = 4 * c.micro_batches, .micro_batch = 4, .sequence = 2048};
  Job job = lower(plan, deep_model());
  place(job);
  return job;
}

// Links without limits, nothing with a latency.
Cluster ideal_cluster() {
  Cluster cluster = load_cluster("dgx-a100");
  TopologySpec& t = cluster.node.topology;
  constexpr BytesPerSecond kFast{1e18};
  for (LinkClass* link :
       {&*t.gpu_peer, &t.gpu_pcie, &t.pcie_uplink, &t.dram, &t.socket_peer, &t.nic_pcie, &t.nic})
    link->capacity = kFast;
  cluster.node.latency = {};
  cluster.node.device.launch_overhead = cluster.node.device.gemm_overhead = Seconds{0};
  cluster.node.device.copy_latency = Seconds{0};
  return cluster;
}

// Most micro-batches whose forward has begun and whose backward has not.
std::size_t most_in_flight(const Program& program) {
  const ProgramIndex index(program);
  std::set<std::int64_t> forward, backward;
  std::size_t most = 0;
  for (Cursor at(index, Lane::kCompute); at->step() == 0; at.advance()) {
    const Phase phase = program.nodes[at->node].role.phase;
    if (phase == Phase::kForward) forward.insert(at->env.micro);
    if (phase == Phase::kBackward) backward.insert(at->env.micro);
    most = std::max(most, forward.size() - backward.size());
  }
  EXPECT_EQ(forward.size(), backward.size());
  return most;
}

class Pipeline : public testing::TestWithParam<Case> {};

TEST_P(Pipeline, KeepsTheMicroBatchesOfItsSchedule) {
  const auto [schedule, p, m] = GetParam();
  const Job job = job_of(GetParam());
  for (int stage = 0; stage < p; ++stage) {
    const int expected = schedule == Schedule::kGpipe ? m : std::min(m, p - stage);
    EXPECT_EQ(most_in_flight(job.classes[static_cast<std::size_t>(stage)].program),
              static_cast<std::size_t>(expected))
        << "stage " << stage;
  }
}

double update_seconds(const Job& job, const Cluster& cluster, int stage) {
  const CostModel model(job, cluster);
  const Program& p = job.classes[static_cast<std::size_t>(stage)].program;
  double seconds = 0;
  for (std::size_t i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].kind == OpKind::kKernel && p.nodes[i].kernel == KernelId::kAdamW)
      seconds += to_seconds(model.costs(stage)[i].alone).value *
                 static_cast<double>(testing_support::instances(p, p.nodes[i]));
  return seconds;
}

TEST_P(Pipeline, IsIdleForTheBubbleOfTheSchedule) {
  const auto [schedule, p, m] = GetParam();
  const Job job = job_of(GetParam());
  const Cluster cluster = ideal_cluster();
  const sim::SimResult result = sim::simulate(job, cluster);
  double longest = 0;  // what the busiest stage computes
  for (const sim::LaneReport& lane : result.lanes)
    if (lane.lane == Lane::kCompute)
      longest = std::max(longest, lane.busy.value - update_seconds(job, cluster, lane.stage));
  const double bubble = (result.period.value - update_seconds(job, cluster, 0) - longest) / longest;
  const double expected = static_cast<double>(p - 1) / m;
  EXPECT_NEAR(bubble, expected, 0.01 * (1 + expected)) << name(schedule);
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Pipeline,
    testing::Values(Case{Schedule::kOneForwardOneBackward, 1, 4},
                    Case{Schedule::kOneForwardOneBackward, 2, 4},
                    Case{Schedule::kOneForwardOneBackward, 4, 4},
                    Case{Schedule::kOneForwardOneBackward, 4, 16},
                    Case{Schedule::kOneForwardOneBackward, 8, 2}, Case{Schedule::kGpipe, 2, 4},
                    Case{Schedule::kGpipe, 4, 4}, Case{Schedule::kGpipe, 4, 16}),
    [](const auto& c) {
      return std::string(c.param.schedule == Schedule::kGpipe ? "Gpipe" : "OneForwardOneBackward") +
             std::to_string(c.param.stages) + "Stages" + std::to_string(c.param.micro_batches);
    });

}  // namespace
}  // namespace zplan
